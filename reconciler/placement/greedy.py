"""Packing without looking back: one replica after the other, the hardest first, each where it fits best."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.placement.board import Board, State
    from reconciler.placement.needs import Ask, Need

    Seats = Sequence[tuple[State, State]]


@dataclass(frozen=True, slots=True)
class Step:
    """One replica placed, by what nodes look like and not by their names."""

    model: str
    need: Need
    seats: Seats
    """Of each of its nodes the state before and after it."""


@dataclass(frozen=True, slots=True)
class Packed:
    """One replica: the way it runs, and its nodes."""

    model: str
    need: Need
    nodes: tuple[str, ...]


@dataclass(slots=True)
class Filling:
    """The nodes of a board as they fill up."""

    board: Board
    names: dict[State, list[str]] = field(default_factory=dict)
    """By state, sorted; no state without a node."""
    packed: list[Packed] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    _ranked: dict[str | None, list[tuple[tuple[int, ...], State]]] = field(default_factory=dict)
    """The states that have a class, best fit first; by class, None for what runs on CPUs."""

    def __post_init__(self) -> None:
        for state in self.names:
            self._rank(state)

    def place(self, model: str, needs: Sequence[Need]) -> Packed | None:
        """Place one replica in the first way that fits, where it fits best."""
        for need in needs:
            chosen = self.seats(need)
            if chosen is not None:
                return self.take(model, need, chosen)
        return None

    def seats(self, need: Need) -> list[tuple[State, State]] | None:
        """The states, before and after, of the nodes that fit best, one a node; None where there are too few."""
        ranked = self._ranked.get(need.gpu_class, [])
        first = bisect_left(ranked, ((need.gpus,),)) if need.gpu_class is not None else 0
        states = (state for _, state in islice(ranked, first, None))
        each = (state for state in self.board.fitting(need, states) for _ in range(len(self.names[state])))
        chosen = list(islice(each, need.nodes))
        return [(state, self.board.after(need, state)) for state in chosen] if len(chosen) == need.nodes else None

    def take(self, model: str, need: Need, seats: Seats) -> Packed:
        """Give a replica its nodes, of those in one state the first by name."""
        nodes = [self._pop(before) for before, _ in seats]
        for name, (_, after) in zip(nodes, seats, strict=True):
            if after not in self.names:
                self.names[after] = []
                self._rank(after)
            insort(self.names[after], name)
        packed = Packed(model, need, tuple(nodes))
        self.packed.append(packed)
        self.steps.append(Step(model, need, seats))
        return packed

    def _pop(self, state: State) -> str:
        name = self.names[state].pop(0)
        if not self.names[state]:
            del self.names[state]
            for gpu_class in self._classes(state):
                ranked = self._ranked[gpu_class]
                ranked.pop(bisect_left(ranked, (self.board.rank(gpu_class, state), state)))
        return name

    def _rank(self, state: State) -> None:
        for gpu_class in self._classes(state):
            insort(self._ranked.setdefault(gpu_class, []), (self.board.rank(gpu_class, state), state))

    def _classes(self, state: State) -> tuple[str | None, ...]:
        return (None, *self.board.kinds[state[0]].classes)


def greedy(board: Board, asks: Sequence[Ask]) -> Filling | None:
    """Everything placed, or None. Tries the largest first, then those first that the fewest nodes take."""
    for order in (by_size(asks), sorted(by_size(asks), key=lambda ask: _choice(board, ask))):
        filling = Filling(board, board.start())
        if all(filling.place(ask.model, ask.needs) is not None for ask in replicas(order)):
            return filling
    return None


def by_size(asks: Sequence[Ask]) -> list[Ask]:
    """The largest first: GPUs on a node, then nodes, then host RAM and cores; what runs on CPUs comes last."""
    return sorted(asks, key=lambda ask: (*_size(ask.needs[0]), ask.model))


def replicas(asks: Sequence[Ask]) -> Iterator[Ask]:
    """Each ask once for each of its replicas."""
    return (ask for ask in asks for _ in range(ask.count))


def _size(need: Need) -> tuple[int, ...]:
    return need.gpu_class is None, -need.gpus, -need.nodes, -need.memory, -need.cpu_cores


def _choice(board: Board, ask: Ask) -> int:
    """Nodes that could take one of its replicas."""
    kinds = {kind for need in ask.needs for kind in board.eligible(need)}
    return sum(len(board.kinds[kind].nodes) for kind in kinds)
