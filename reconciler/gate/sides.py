"""Two trees of one fleet, and which model of the one stands for which of the other.

Only the files are known here, not the fleet: a replica of the base may run by any profile of its model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.domain.declaration import declare
from reconciler.gate.beside import Beside
from reconciler.gate.capacity import Inventory
from reconciler.gate.knowledge import Knowledge
from reconciler.gate.subject import Use
from reconciler.gate.together import Together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.domain.desired import Desired
    from reconciler.domain.model_spec import ModelSpec


@dataclass(frozen=True)
class Side:
    """One of the two trees, as far as it could be read."""

    desired: Desired
    unread: frozenset[str] = frozenset()
    """Models whose file has errors: what they ask for is not known."""

    @cached_property
    def inventory(self) -> Inventory:
        """The nodes, indexed."""
        return Inventory(self.desired.nodes)

    @cached_property
    def knowledge(self) -> Knowledge:
        """What locks and engines say."""
        return Knowledge(self.desired)

    def declarations(self, model: ModelSpec) -> Mapping[str, Declaration]:
        """What each profile would run, by the profile's name; none for an external model."""
        if model.external is not None:
            return {}
        return {profile.name: declare(self.desired, model, profile) for profile in model.profiles}

    def use(self, model: ModelSpec) -> Use | None:
        """The profile a model is counted with: the first that some node takes, else the first; None without any."""
        if model.external is not None or not model.profiles:
            return None
        where = self.desired.where_by_model[model.name]
        uses = [Use(model, each, where.at("profiles", position)) for position, each in enumerate(model.profiles)]
        return next((use for use in uses if self._is_taken(use)), uses[0])

    def has_room_beside(self, model: ModelSpec) -> bool:
        """Whether one replica more of a model has room when every minimum runs; False where that is not known."""
        together = self._beside.together
        ask = together.placed.get(model.name) if together.is_understood and together.today.fits else None
        return ask is not None and self._beside.has_room(ask)

    @cached_property
    def _beside(self) -> Beside:
        return Beside(Together(self.desired))

    def _is_taken(self, use: Use) -> bool:
        profile = use.profile
        kinds = self.inventory.kinds(profile.gpu_class, profile.select or {})
        return sum(len(kind.nodes) for kind in kinds if kind.takes(use.gpus)) >= profile.nodes


@dataclass(frozen=True, slots=True)
class Pair:
    """One model before and after; None where it is not there. At least one side is."""

    before: ModelSpec | None
    after: ModelSpec | None

    @property
    def name(self) -> str:
        """Its name after the change, else the one it had."""
        present = self.after or self.before
        assert present is not None  # noqa: S101  # one side is always there
        return present.name


def pairs(before: Side, after: Side) -> Iterator[Pair]:
    """Every model that could be read on both sides, or is on one side only.

    A model is paired by its name, else by the name it says it `moved` from.
    """
    known, wanted = before.desired.model_by_name, after.desired.model_by_name
    paired = set(wanted)
    unread = before.unread | after.unread
    for model in after.desired.models:
        former = model.name
        if former not in known and model.moved is not None and model.moved not in wanted:
            former = model.moved
            paired.add(former)
        if not {model.name, former} & unread:
            yield Pair(known.get(former), model)
    for model in before.desired.models:
        if model.name not in paired | unread:
            yield Pair(model, None)


def half_read(before: Side, after: Side) -> Iterator[tuple[Side, ModelSpec]]:
    """Models that only one side could read, with that side; for these it speaks for both."""
    for side, other in ((before, after), (after, before)):
        for model in side.desired.models:
            if model.name in other.unread and model.name not in side.unread:
                yield side, model
