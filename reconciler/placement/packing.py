"""Whether all models fit onto the inventory together: nothing observed, only what is written.

Greedy first, which is enough for nearly every fleet; then a proof by counting that it cannot be; then exact search,
as far as its budget goes. The answer says which of them gave it. Where none of them did nothing is proved, and a fleet
is refused only on a proof.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.placement.board import Board
from reconciler.placement.bounds import Shortage, shortage
from reconciler.placement.greedy import Filling, greedy
from reconciler.placement.needs import Ask
from reconciler.placement.search import Budget, Ending, search

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reconciler.placement.greedy import Step
    from reconciler.placement.needs import Bin, Need

BUDGET = 1_000_000
"""Node states that exact search may look at for one question, about half a second of work on two cores.

Fleets that need more are large ones without slack, and then half a second more finds nothing either. It can grow when
an instance that people have is found with more.
"""

_SHRUNK = 12
"""Models up to which a proof by search is narrowed to those that compete: each costs another search."""


class Outcome(StrEnum):
    """How the question was answered."""

    GREEDY = "greedy"
    """They fit, and best fit found it."""
    EXACT = "exact"
    """They fit, and only trying all ways found it."""
    NONE = "none"
    """They do not fit in any way: `conflicts` say why."""
    GAVE_UP = "gave up"
    """Not known."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Models that do not fit on some nodes together."""

    models: tuple[str, ...]
    """In the order of the asks."""
    nodes: tuple[str, ...]
    """Sorted."""
    shortage: Shortage | None
    """The proof by counting; None where all ways were tried."""
    group: tuple[str, ...]
    """All models that share nodes with them, themselves included, sorted."""


@dataclass(frozen=True)
class Packing:
    """The answer for one set of asks."""

    outcome: Outcome
    filling: Filling
    """Every replica that was placed, with its nodes, and what is left of them; all of them where they fit."""
    conflicts: tuple[Conflict, ...] = ()
    """One for each group of models that share nodes and do not fit on them."""
    undecided: tuple[tuple[str, ...], ...] = ()
    """Groups of models of which it is not known."""

    @property
    def fits(self) -> bool:
        """Whether every replica was placed."""
        return not self.conflicts and not self.undecided

    @cached_property
    def nodes_by_model(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """The nodes of each replica of each model that was placed."""
        found: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
        for each in self.filling.packed:
            found[each.model].append(each.nodes)
        return {model: tuple(nodes) for model, nodes in found.items()}


class Packer:
    """Answers several questions about one inventory, such as: and one more of these?"""

    def __init__(self, bins: Iterable[Bin], needs: Iterable[Need]) -> None:
        self.board = Board(bins, needs)

    def placeable(self, asks: Iterable[Ask]) -> tuple[Ask, ...]:
        """The asks that the empty fleet could run one replica of, without the ways that it could not."""
        found = []
        for ask in asks:
            needs = tuple(need for need in ask.needs if self.board.takes(need))
            if ask.count and needs:
                found.append(Ask(ask.model, ask.count, needs))
        return tuple(found)

    def pack(self, asks: Sequence[Ask], budget: int = BUDGET) -> Packing:
        """Place every replica of every ask, each of which the empty fleet could run (see `placeable`).

        Groups of models that share no node are answered one by one: their ways do not multiply, and each that does not
        fit is told.
        """
        whole = greedy(self.board, asks)
        if whole is not None:
            return Packing(Outcome.GREEDY, whole)
        filling = Filling(self.board, self.board.start())
        left = Budget(budget)
        groups = self.groups(asks)
        conflicts: list[Conflict] = []
        undecided: list[tuple[str, ...]] = []
        for kinds, group in groups:
            found = self._group(kinds, group, left, alone=len(groups) == 1)
            match found:
                case Conflict():
                    conflicts.append(found)
                case Ending():
                    undecided.append(_names(group))
                case _:
                    for step in found:
                        filling.take(step.model, step.need, step.seats)
        outcome = Outcome.NONE if conflicts else Outcome.GAVE_UP if undecided else Outcome.EXACT
        return Packing(outcome, filling, tuple(conflicts), tuple(undecided))

    def groups(self, asks: Sequence[Ask]) -> list[tuple[list[int], list[Ask]]]:
        """Models that could meet on a node, with all kinds of node that any of them could use."""
        groups: list[tuple[set[int], list[Ask]]] = []
        for ask in asks:
            kinds = {kind for need in ask.needs for kind in self.board.eligible(need)}
            members = [ask]
            apart = []
            for other in groups:
                if other[0] & kinds:
                    kinds |= other[0]
                    members = other[1] + members
                else:
                    apart.append(other)
            groups = [*apart, (kinds, members)]
        ordered = ((sorted(kinds), sorted(members, key=lambda ask: ask.model)) for kinds, members in groups)
        return sorted(ordered, key=lambda group: group[0])

    def _group(
        self, kinds: Sequence[int], asks: Sequence[Ask], budget: Budget, *, alone: bool
    ) -> list[Step] | Conflict | Ending:
        """One group; where it is the only one, best fit has failed for it already."""
        short = shortage(self.board, asks)
        if short is not None:
            return Conflict(short.models, short.nodes, short, _names(asks))
        filling = None if alone else greedy(self.board, asks)
        if filling is not None:
            return filling.steps
        found = search(self.board, kinds, asks, budget)
        return self._conflict(kinds, asks, budget) if found is Ending.NONE else found

    def _conflict(self, kinds: Sequence[int], asks: Sequence[Ask], budget: Budget) -> Conflict:
        """Leave out each model without which there is still no way; the rest are those that compete."""
        left = list(asks)
        for ask in reversed(asks if len(asks) <= _SHRUNK else ()):
            fewer = [each for each in left if each is not ask]
            if greedy(self.board, fewer) is None and search(self.board, kinds, fewer, budget) is Ending.NONE:
                left = fewer
        used = {kind for ask in left for need in ask.needs for kind in self.board.eligible(need)}
        nodes = tuple(sorted(name for kind in used for name in self.board.kinds[kind].nodes))
        return Conflict(_names(left), nodes, None, _names(asks))


def pack(bins: Iterable[Bin], asks: Sequence[Ask], budget: int = BUDGET) -> Packing:
    """Answer for one set of asks; those that no node could run even alone are left out."""
    packer = Packer(bins, (need for ask in asks for need in ask.needs))
    return packer.pack(packer.placeable(asks), budget)


def _names(asks: Iterable[Ask]) -> tuple[str, ...]:
    return tuple(ask.model for ask in asks)
