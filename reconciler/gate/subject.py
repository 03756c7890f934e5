"""What the rules look at: everything desired, indexed once a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.domain.finding import Problem
from reconciler.gate.capacity import Inventory
from reconciler.gate.knowledge import Knowledge
from reconciler.gate.room import room_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from reconciler.domain.desired import Desired, Node, Where
    from reconciler.domain.finding import Severity
    from reconciler.domain.model_spec import ModelSpec, Profile
    from reconciler.gate.beside import Beside
    from reconciler.gate.room import Room
    from reconciler.gate.together import Together
    from reconciler.planning.limits import Removal


@dataclass(frozen=True, slots=True)
class Use:
    """One profile of one model, which is what most rules judge."""

    model: ModelSpec
    profile: Profile
    where: Where
    """Of the profile."""

    @property
    def gpus(self) -> int:
        """GPUs per replica on one node: 0 on CPUs, 1 where a GPU class is set and no count."""
        if self.profile.gpu_class is None:
            return 0
        return 1 if self.profile.gpus is None else self.profile.gpus

    def changed(self, **fields: float | str) -> Use:
        """The same profile with these fields in place of its own; `context` is the model's."""
        model = self.model.model_copy(update={"context": fields.pop("context")}) if "context" in fields else self.model
        return Use(model, self.profile.model_copy(update=fields), self.where)

    def problem(
        self,
        path: str | tuple[str | int, ...],
        message: str,
        hint: str | None = None,
        *,
        valid: tuple[int, ...] | None = None,
        severity: Severity | None = None,
    ) -> Problem:
        """A problem at a field of this profile; the empty path is the profile itself."""
        where = self.where.at(path) if isinstance(path, str) else self.where.at(*path)
        return Problem(where, message, hint, self.model.name, self.profile.name, valid, severity)


@dataclass(frozen=True)
class Context:
    """One run of the gate over one tree, which may be broken in places."""

    desired: Desired
    broken: frozenset[str]
    """Models whose file yielded no object: they exist, and nothing more is known of them."""
    inventory: Inventory | None
    """None where a part of it could not be read: rules do not refuse on half an inventory."""
    models: tuple[ModelSpec, ...]
    """Models to judge."""
    uses: tuple[Use, ...]
    """Profiles to judge; external models have none."""
    nodes: tuple[Node, ...]
    """Nodes whose own entries are to be judged."""
    knowledge: Knowledge
    """What locks and engines say, worked out once a run."""
    room: Room | None
    """Everything packed together; None where the inventory could not be read."""
    unreadable_locks: frozenset[str] = frozenset()
    """Models whose lock is there and could not be read: it has findings of its own."""
    base: Desired | None = None
    """The tree that this one is compared with; None without one."""
    replaced: frozenset[str] | None = None
    """Models that the change must replace; None without a base to compare with."""
    removal: Removal | None = None
    """What the change removes from the tree; None without a base."""

    @property
    def together(self) -> Together | None:
        """All minimums on the inventory; None where that could not be read."""
        return None if self.room is None else self.room.together

    @property
    def beside(self) -> Beside:
        """Room for one replica more. The inventory was read."""
        assert self.room is not None  # noqa: S101  # who asks has looked
        return self.room.beside

    @cached_property
    def use_by_where(self) -> Mapping[Where, Use]:
        """The profiles by their place."""
        return {use.where: use for use in self.uses}

    def without(self, names: Collection[str]) -> Context:
        """The same tree, with models of these names left out of what is to be judged."""
        if not names:
            return self
        models = tuple(model for model in self.models if model.name not in names)
        uses = tuple(use for use in self.uses if use.model.name not in names)
        return replace(self, models=models, uses=uses)

    def only(self, use: Use) -> Context:
        """The same tree, with this profile alone to judge."""
        return Context(self.desired, self.broken, self.inventory, (), (use,), (), self.knowledge, self.room)


def context_of(
    desired: Desired,
    broken: frozenset[str],
    *,
    inventory_read: bool = True,
    unreadable_locks: frozenset[str] = frozenset(),
    base: Desired | None = None,
    replaced: frozenset[str] | None = None,
    removal: Removal | None = None,
    room: Room | None = None,
) -> Context:
    """Index a tree for one run; `inventory_read` is False when a file of it that describes nodes is broken.

    `replaced` and `removal` say what changes against `base`, where there is one; `room` is that of an earlier tree with
    the same nodes.
    """
    here = room_of(desired, room) if inventory_read else None
    return Context(
        desired=desired,
        broken=broken,
        inventory=None if here is None else here.inventory,
        models=desired.models,
        uses=tuple(_uses(desired)),
        nodes=desired.nodes,
        knowledge=Knowledge(desired),
        room=here,
        unreadable_locks=unreadable_locks,
        base=base,
        replaced=replaced,
        removal=removal,
    )


def _uses(desired: Desired) -> list[Use]:
    return [
        Use(model, profile, desired.where_by_model[model.name].at("profiles", position))
        for model in desired.models
        if model.external is None
        for position, profile in enumerate(model.profiles)
    ]
