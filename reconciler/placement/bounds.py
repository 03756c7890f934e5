"""Proofs by counting that replicas do not fit together: cheap, exact where they speak, and easy to tell a person.

For nodes that some models cannot leave: all of them together need more than there is, or those that need at least so
much of one node are more than the nodes can hold (a node of 8 holds one replica of 5, however much is free in total).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.placement.board import CORES, GPUS, MEMORY, UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.placement.board import Board
    from reconciler.placement.needs import Ask, Need

HOST_RAM = "host RAM"
CPU_CORES = "cores"


@dataclass(frozen=True, slots=True)
class Shortage:
    """More is asked of some nodes than they have."""

    of: str
    """A GPU class, HOST_RAM (millionths of a GiB) or CPU_CORES."""
    at_least: int
    """Only parts of replicas that take this much of a node were counted; 0 when amounts were added up."""
    needed: int
    """Parts of replicas, or with `at_least` 0 the sum of what they take."""
    available: int
    """Parts that the nodes hold, or the sum of what they have."""
    models: tuple[str, ...]
    """Those counted, in the order of the asks."""
    nodes: tuple[str, ...]
    """Those counted, sorted."""


def shortage(board: Board, asks: Sequence[Ask]) -> Shortage | None:
    """The first proof that these cannot all be placed; None where counting proves nothing.

    Each ask has a need that the empty fleet takes. Sets of nodes are tried smallest first: the tightest says most.
    """
    able = {ask: tuple(need for need in ask.needs if board.takes(need)) for ask in dict.fromkeys(asks)}
    kinds = {ask: frozenset(kind for need in needs for kind in board.eligible(need)) for ask, needs in able.items()}
    for among in sorted(dict.fromkeys(kinds.values()), key=lambda each: (len(each), sorted(each))):
        members = {ask: able[ask] for ask in able if kinds[ask] <= among}
        for dimension in _dimensions(members):
            found = _of_one(board, members, sorted(among), dimension)
            if found is not None:
                return found
    return None


def _dimensions(members: Mapping[Ask, Sequence[Need]]) -> Iterator[str]:
    yield from sorted({need.gpu_class for needs in members.values() for need in needs if need.gpu_class is not None})
    yield from (HOST_RAM, CPU_CORES)


def _of_one(
    board: Board, members: Mapping[Ask, Sequence[Need]], among: Sequence[int], dimension: str
) -> Shortage | None:
    has = [(_has(board, kind, dimension), len(board.kinds[kind].nodes)) for kind in among]
    if any(amount == UNLIMITED for amount, _ in has):
        return None
    nodes = tuple(sorted(name for kind in among if _has(board, kind, dimension) for name in board.kinds[kind].nodes))
    total = sum(amount * count for amount, count in has)
    sums = {
        ask: ask.count * min(_takes(need, dimension) * need.nodes for need in needs) for ask, needs in members.items()
    }
    needed = sum(sums.values())
    if needed > total:
        return Shortage(dimension, 0, needed, total, tuple(ask.model for ask in members if sums[ask]), nodes)
    for least in sorted({_takes(need, dimension) for needs in members.values() for need in needs} - {0}, reverse=True):
        parts = {
            ask: ask.count * min(need.nodes if _takes(need, dimension) >= least else 0 for need in needs)
            for ask, needs in members.items()
        }
        needed = sum(parts.values())
        room = sum(amount // least * count for amount, count in has)
        if needed > room:
            return Shortage(dimension, least, needed, room, tuple(ask.model for ask in members if parts[ask]), nodes)
    return None


def _has(board: Board, kind: int, dimension: str) -> int:
    one = board.kinds[kind]
    if dimension == HOST_RAM:
        return one.start[MEMORY]
    if dimension == CPU_CORES:
        return one.start[CORES]
    return one.start[GPUS + one.classes.index(dimension)] if dimension in one.classes else 0


def _takes(need: Need, dimension: str) -> int:
    if dimension == HOST_RAM:
        return need.memory
    if dimension == CPU_CORES:
        return need.cpu_cores
    return need.gpus if need.gpu_class == dimension else 0
