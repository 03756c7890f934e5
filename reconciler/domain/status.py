"""What is, as `reconciler status --format json` prints it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import field_serializer

from reconciler.domain.base import FORMAT_VERSION, Count, Flag, Frozen, Name, Text
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import ReplicaId


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
    ordinal: Count
    node: Name
    gpus: tuple[Count, ...]
    """Indices."""
    state: ReplicaState | str
    """`unknown` when the node does not answer."""
    routable: Flag
    address: str | None
    """Base URL."""
    stage: str | None = None
    failure: str | None = None
    pid: int | None = None


class ModelStatus(Frozen):
    """One model of the catalog, or one that still runs after its file went."""

    name: Name
    desired: Count
    ready: Count
    updated: Count
    """Ready replicas that match what is desired."""
    state: ModelState
    reason: str | None = None
    """One sentence; None when ready or off."""
    since: datetime | None = None
    replicas: tuple[ReplicaStatus, ...] = ()

    @field_serializer("since", when_used="json")
    def _utc(self, value: datetime | None) -> str | None:
        return None if value is None else value.strftime("%Y-%m-%dT%H:%M:%SZ")


class GpuUse(Frozen):
    """GPUs of one class on one node."""

    used: Count
    total: Count


class NodeStatus(Frozen):
    """One node of the inventory."""

    name: Name
    reachable: Flag
    gpus: dict[Text, GpuUse]


class FleetStatus(Frozen):
    """The whole fleet."""

    format_version: str = FORMAT_VERSION
    commit: str | None
    models: tuple[ModelStatus, ...]
    nodes: tuple[NodeStatus, ...]
