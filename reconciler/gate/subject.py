"""What the rules look at: everything desired, indexed once a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.domain.finding import Problem
from reconciler.gate.capacity import Inventory
from reconciler.gate.knowledge import Knowledge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.desired import Desired, Node, Where
    from reconciler.domain.finding import Severity
    from reconciler.domain.model_spec import ModelSpec, Profile


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

    def with_gpus(self, gpus: int) -> Use:
        """The same profile with another GPU count."""
        return Use(self.model, self.profile.model_copy(update={"gpus": gpus}), self.where)

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
    unreadable_locks: frozenset[str] = frozenset()
    """Models whose lock is there and could not be read: it has findings of its own."""

    @cached_property
    def use_by_where(self) -> Mapping[Where, Use]:
        """The profiles by their place."""
        return {use.where: use for use in self.uses}

    def only(self, use: Use) -> Context:
        """The same tree, with this profile alone to judge."""
        return Context(self.desired, self.broken, self.inventory, (), (use,), (), self.knowledge)


def context_of(
    desired: Desired,
    broken: frozenset[str],
    *,
    inventory_read: bool = True,
    unreadable_locks: frozenset[str] = frozenset(),
) -> Context:
    """Index a tree for one run; `inventory_read` is False when a file of it that describes nodes is broken."""
    return Context(
        desired=desired,
        broken=broken,
        inventory=Inventory(desired.nodes) if inventory_read else None,
        models=desired.models,
        uses=tuple(_uses(desired)),
        nodes=desired.nodes,
        knowledge=Knowledge(desired),
        unreadable_locks=unreadable_locks,
    )


def _uses(desired: Desired) -> list[Use]:
    return [
        Use(model, profile, desired.where_by_model[model.name].at("profiles", position))
        for model in desired.models
        if model.external is None
        for position, profile in enumerate(model.profiles)
    ]
