"""Packing by trying everything: branch and bound over states of nodes, the hardest replica first.

Nodes in one state are tried once, and a situation that was met before is not entered again. The number of situations
is bounded, so that an answer always comes; it is then "gave up", which proves nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from reconciler.placement.board import GPUS
from reconciler.placement.greedy import Step, by_size, replicas

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.placement.board import Board, State
    from reconciler.placement.needs import Ask, Need

    Pairs = tuple[tuple[State, State], ...]


_KINDS_BOUNDED = 32
"""Different needs up to which each situation is held against a bound; with more the bound costs more than it saves."""


_MOST_NODES = 64
"""Nodes of one replica up to which every choice of them is tried; none that people run spans more."""


class Ending(StrEnum):
    """How a search ended without a packing."""

    NONE = "none"
    """Everything was tried: there is none."""
    GAVE_UP = "gave up"
    """The budget was spent."""


@dataclass(slots=True)
class Budget:
    """Node states that may still be looked at, about 2 million a second."""

    left: int

    def spend(self, counts: Counter[State]) -> bool:
        """Pay for one situation; False when there is nothing left."""
        self.left -= len(counts) + 1
        return self.left > 0


def search(board: Board, kinds: Sequence[int], asks: Sequence[Ask], budget: Budget) -> list[Step] | Ending:
    """Place every replica on nodes of these kinds, or tell that it cannot be done."""
    if any(need.nodes > _MOST_NODES for ask in asks for need in ask.needs):
        return Ending.GAVE_UP
    items = list(replicas(by_size(asks)))
    counts = Counter({board.kinds[kind].start: len(board.kinds[kind].nodes) for kind in kinds})
    left = Counter(ask.needs for ask in items)
    seen: set[tuple[int, frozenset[tuple[State, int]]]] = set()
    steps: list[Step] = []
    stack = [_options(board, items[0], counts)] if items else []
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            if steps:
                _undo(counts, steps.pop())
                left[items[len(steps)].needs] += 1
            continue
        if not budget.spend(counts):
            return Ending.GAVE_UP
        _apply(counts, step)
        depth = len(stack)
        if depth == len(items):
            return [*steps, step]
        left[items[depth - 1].needs] -= 1
        key = (depth, frozenset(counts.items()))
        if key in seen or not _may_do(board, left, counts):
            _undo(counts, step)
            left[items[depth - 1].needs] += 1
            continue
        seen.add(key)
        steps.append(step)
        stack.append(_options(board, items[depth], counts))
    return Ending.NONE if items else []


def _options(board: Board, ask: Ask, counts: Counter[State]) -> Iterator[Step]:
    """Every different way to place one replica: by way, then best fit first."""
    now = dict(counts)
    for need in ask.needs:
        fitting = sorted(board.fitting(need, now), key=partial(board.rank, need.gpu_class))
        pairs = [(state, board.after(need, state)) for state in fitting]
        for seats in _choices(pairs, now, need.nodes):
            yield Step(ask.model, need, seats)


def _choices(fitting: Sequence[tuple[State, State]], counts: Mapping[State, int], nodes: int) -> Iterator[Pairs]:
    """Every way to take that many nodes, told apart by their states only."""
    if nodes == 0:
        yield ()
        return
    left = sum(counts[state] for state, _ in fitting)
    for position, pair in enumerate(fitting):
        if left < nodes:
            return  # so that every way that is begun ends in one
        # All that are taken in this state are taken here, so that no choice comes twice.
        for taken in range(min(nodes, counts[pair[0]]), 0, -1):
            for rest in _choices(fitting[position + 1 :], counts, nodes - taken):
                yield (pair,) * taken + rest
        left -= counts[pair[0]]


def _apply(counts: Counter[State], step: Step) -> None:
    for before, after in step.seats:
        _add(counts, before, -1)
        _add(counts, after, 1)


def _undo(counts: Counter[State], step: Step) -> None:
    for before, after in step.seats:
        _add(counts, after, -1)
        _add(counts, before, 1)


def _add(counts: Counter[State], state: State, change: int) -> None:
    counts[state] += change
    if not counts[state]:
        del counts[state]


def _may_do(board: Board, left: Counter[tuple[Need, ...]], counts: Counter[State]) -> bool:
    """Whether what is left could be placed if each kind of it were alone; False proves that it cannot."""
    if len(left) > _KINDS_BOUNDED:
        return True
    wanted: Counter[str] = Counter()
    for needs, count in left.items():
        if len(needs) == 1 and count:
            wanted[needs[0].gpu_class or ""] += count * needs[0].nodes * needs[0].gpus
            if count * needs[0].nodes > sum(board.most(needs[0], state) * nodes for state, nodes in counts.items()):
                return False
    free: Counter[str] = Counter()
    for state, nodes in counts.items():
        for gpu_class, gpus in zip(board.kinds[state[0]].classes, state[GPUS:], strict=True):
            free[gpu_class] += gpus * nodes
    return all(gpus <= free[gpu_class] for gpu_class, gpus in wanted.items() if gpus)
