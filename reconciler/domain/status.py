"""What is, as `reconciler status --format json` prints it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import field_serializer

from reconciler.domain.base import FORMAT_VERSION, Count, Flag, Frozen, Name, Text
from reconciler.domain.intent import Intent
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import ReplicaId
from reconciler.domain.plan import Blocked


class ModelState(StrEnum):
    """One word for a model."""

    READY = "ready"
    """Every desired replica is ready and up to date."""
    RECONCILING = "reconciling"
    """Work is under way."""
    WAITING = "waiting"
    """Something it needs is not there: room, a node."""
    STALLED = "stalled"
    """No retry will help: a person or a new commit is needed."""
    SUSPENDED = "suspended"
    OFF = "off"
    """No replica is desired and none runs."""


class ReplicaStatus(Frozen):
    """One replica that runs, or is known from when its node was last heard."""

    id: ReplicaId
    """Its id, such as llama-70b/0@5d0e9c11."""
    ordinal: Count
    """Number of its slot."""
    node: Name
    """Name of its node."""
    gpus: tuple[Count, ...]
    """Indices."""
    state: ReplicaState | str
    """`unknown` when the node does not answer."""
    routable: Flag
    """Whether requests may be sent to it."""
    address: str | None
    """Base URL."""
    stage: str | None = None
    """What it is doing."""
    failure: str | None = None
    """Why it failed, where it did."""
    pid: int | None = None
    """Of its process, where its node tells."""


class ModelStatus(Frozen):
    """One model of the catalog, or one that still runs after its file went."""

    name: Name
    """Name of the model."""
    desired: Count
    """Replicas that are wanted."""
    ready: Count
    """Replicas that serve."""
    updated: Count
    """Ready replicas that match what is desired."""
    state: ModelState
    """ready, reconciling, waiting, stalled, suspended or off."""
    reason: str | None = None
    """One sentence; None when ready or off."""
    since: datetime | None = None
    """Since when, RFC 3339 in UTC."""
    replicas: tuple[ReplicaStatus, ...] = ()
    """What runs of it."""

    @field_serializer("since", when_used="json")
    def _utc(self, value: datetime | None) -> str | None:
        return None if value is None else value.strftime("%Y-%m-%dT%H:%M:%SZ")


class GpuUse(Frozen):
    """GPUs of one class on one node."""

    used: Count
    """GPUs that replicas hold."""
    total: Count
    """GPUs that there are."""


NO_AGENT = "no agent runs there; its journal and the process table of this machine are read instead"
"""Why the agent of this machine's own node does not answer: what runs there is known all the same."""


class NodeStatus(Frozen):
    """One node of the inventory."""

    name: Name
    """Name of the node."""
    reachable: Flag
    """Whether its agent answers."""
    gpus: dict[Text, GpuUse]
    """By GPU class: how many are in use."""
    problem: str | None = None
    """What happened when its agent was asked; null where it answered."""
    heard_at: datetime | None = None
    """When it last answered, where it does not and that is remembered; RFC 3339 in UTC."""
    gpu_problems: tuple[str, ...] = ()
    """GPUs that do not answer their driver, and what contradicts the declaration."""

    @field_serializer("heard_at", when_used="json")
    def _utc(self, value: datetime | None) -> str | None:
        return None if value is None else value.strftime("%Y-%m-%dT%H:%M:%SZ")


class FleetStatus(Frozen):
    """The whole fleet."""

    format_version: str = FORMAT_VERSION
    """Of this answer: a higher minor adds fields."""
    commit: str | None
    """The commit that is aimed at; null where none was."""
    models: tuple[ModelStatus, ...]
    """By name."""
    nodes: tuple[NodeStatus, ...]
    """By name."""
    intents: tuple[Intent, ...] = ()
    """What people have said and what still holds, oldest first."""
    blocked: tuple[Blocked, ...] = ()
    """What cannot happen until a person, a commit or the fleet changes something."""
