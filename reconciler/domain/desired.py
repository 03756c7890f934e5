"""Everything one tree of `cluster/` asks for: the desired side.

`Desired` is complete or it does not exist; a tree with a broken file yields findings instead (promise 1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.domain.fleet_spec import FleetSpec, GpuClass, GpuGroup
from reconciler.domain.model_spec import ModelSpec, Profile, Rollout, Strategy
from reconciler.domain.tables import gpu_classes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.lock import Lock
    from reconciler.domain.roster import Roster

Path = tuple[str | int, ...]
"""A place inside one YAML document: keys and list positions from the top."""


@dataclass(frozen=True, slots=True)
class Where:
    """A place in `cluster/`: file as the user names it, and the path of the field in it."""

    file: str
    path: Path = ()

    def at(self, *steps: str | int) -> Where:
        """A place below this one."""
        return Where(self.file, (*self.path, *steps))


@dataclass(frozen=True, slots=True)
class Node:
    """One node with what its pool gave it; GPU indices follow the order of the groups."""

    name: str
    pool: str
    where: Where
    gpus: tuple[GpuGroup, ...] = ()
    memory_gib: float | None = None
    cpu_cores: int | None = None
    address: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    drain: bool = False
    drain_gpus: tuple[int, ...] = ()

    def gpu_class_by_index(self) -> tuple[str, ...]:
        """The class of each GPU, by index; a MIG slice's class is CLASS/PROFILE."""
        return tuple(
            f"{group.gpu_class}/{group.mig}" if group.mig else group.gpu_class
            for group in self.gpus
            for _ in range(max(group.count, 0))
        )

    def count(self, gpu_class: str) -> int:
        """GPUs of a class on this node, drained ones included."""
        return sum(1 for each in self.gpu_class_by_index() if each == gpu_class)


IDLE_TIMEOUT = timedelta(minutes=15)
"""A load of some minutes is paid back by a few more requests within a quarter of an hour; later ones come anew."""


@dataclass(frozen=True, slots=True)
class RolloutPolicy:
    """A model's rollout with every default filled in."""

    strategy: Strategy
    max_surge: int
    max_unavailable: int
    min_ready: timedelta
    ready_timeout: timedelta
    drain_timeout: timedelta
    withdraw_delay: timedelta
    bake: timedelta


@dataclass(frozen=True)
class Desired:
    """The whole desired side; models and nodes sorted by name, so that document order changes nothing."""

    fleet: FleetSpec
    nodes: tuple[Node, ...] = ()
    models: tuple[ModelSpec, ...] = ()
    locks: Mapping[str, Lock] = field(default_factory=dict)
    where_by_model: Mapping[str, Where] = field(default_factory=dict)
    roster: Roster | None = None
    """What the tree held when it was last made real, which a removal is measured against; None where nobody knows."""

    @cached_property
    def model_by_name(self) -> Mapping[str, ModelSpec]:
        """Models by name."""
        return {model.name: model for model in self.models}

    @cached_property
    def node_by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def name_after(self) -> Mapping[str, str]:
        """Models that have `moved`, the name after by the name before; one whose file is there has not moved."""
        moved = {model.moved: model.name for model in reversed(self.models) if model.moved}
        return {before: after for before, after in moved.items() if before not in self.model_by_name}

    def model_of(self, entry: RunEntry) -> str:
        """The model that a running replica belongs to, by its name in this tree."""
        return self.name_after.get(entry.model, entry.model)

    @cached_property
    def classes(self) -> Mapping[str, GpuClass]:
        """Built-in GPU classes and the fleet's own; a fleet's own wins."""
        return {**gpu_classes(), **(self.fleet.gpu_classes or {})}

    def policy(self, model: ModelSpec) -> RolloutPolicy:
        """The rollout policy of a model: its own fields, then the fleet's, then the built-in ones."""
        return resolve_rollout(self.fleet.defaults.rollout, model.rollout)

    def idle_timeout(self, model: ModelSpec) -> timedelta:
        """How long an on-demand model stays loaded without a request: its own, else the fleet's, else 15 minutes."""
        return model.scaling.idle_timeout or self.fleet.defaults.idle_timeout or IDLE_TIMEOUT

    def version(self, profile: Profile) -> str | None:
        """The engine version a profile asks for, or the fleet's default for its engine; None when neither says."""
        return profile.version or (self.fleet.defaults.engine_versions or {}).get(profile.engine)


def resolve_rollout(fleet: Rollout, model: Rollout) -> RolloutPolicy:
    """Fill in what a model does not write; `max_unavailable` is 0, or 1 in place."""
    of_fleet = fleet.model_fields_set - model.model_fields_set
    merged = model.model_copy(update={name: getattr(fleet, name) for name in of_fleet}) if of_fleet else model
    unavailable = merged.max_unavailable
    if unavailable is None:
        unavailable = 1 if merged.strategy is Strategy.IN_PLACE else 0
    return RolloutPolicy(
        strategy=merged.strategy,
        max_surge=merged.max_surge,
        max_unavailable=unavailable,
        min_ready=merged.min_ready,
        ready_timeout=merged.ready_timeout,
        drain_timeout=merged.drain_timeout,
        withdraw_delay=merged.withdraw_delay,
        bake=merged.bake,
    )
