"""A plan in a file: what a person looked at and approved, and what must still hold when it is carried out."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from reconciler.domain.base import FORMAT_VERSION, Count, Frozen, Name, Text, digest
from reconciler.domain.observed import NodeObservation, Observation
from reconciler.domain.placement import ReplicaId, SlotName
from reconciler.domain.plan import Plan

KIND = "reconciler-plan"


class PremisedGpu(Frozen):
    """One GPU that an action will use, and who held it when the plan was made."""

    node: Name
    uuid: Text
    index: Count
    holder: Text | None = None
    """A replica id, `process PID` for what is not the fleet's, None for nobody."""


class Premise(Frozen):
    """What one action relies on: the nodes it touches answer, what it takes away runs, what it takes is there."""

    replica: SlotName
    nodes: tuple[Name, ...] = ()
    """That must answer."""
    replicas: tuple[ReplicaId, ...] = ()
    """That must run: what is replaced or stopped."""
    gpus: tuple[PremisedGpu, ...] = ()
    """That must be held as they were, or by nobody."""


class PlanFile(Frozen):
    """What `plan --out` writes and `apply FILE` reads. It holds no secret: plans do not show values of variables."""

    kind: Literal["reconciler-plan"] = "reconciler-plan"
    format_version: Text = FORMAT_VERSION
    tool: Text
    """Version of the reconciler that wrote it."""
    fleet: Name
    commit: Text
    tree: Text
    """Id of the tree of `cluster/`: a later commit with the same tree asks for the same."""
    only: Name | None = None
    """Of `plan --model`."""
    created_at: datetime
    plan: Plan
    premises: tuple[Premise, ...] = ()
    """One for each action, in the order of the changes."""


def checksum(content: dict[str, Any]) -> str:
    """Of all that a plan file says besides its checksum: it tells a file that was cut or edited, and names the file."""
    return digest({key: value for key, value in content.items() if key != "checksum"})


class SavedObservation(Frozen):
    """What nodes said at one instant, kept to be planned against; values of variables are not in it."""

    format_version: Text = FORMAT_VERSION
    fleet: Name | None = None
    taken_at: datetime | None = None
    nodes: tuple[NodeObservation, ...] = ()

    @property
    def observation(self) -> Observation:
        """As the planner takes it."""
        return Observation(nodes=tuple(sorted(self.nodes, key=lambda node: node.name)))
