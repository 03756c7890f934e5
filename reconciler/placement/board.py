"""Nodes as packing sees them: those that are alike are one group with a number, so that none is tried twice.

A state is what is free on a node: (kind, host RAM, cores, GPUs of each class of the kind). Nodes in one state are
interchangeable, whatever their names.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reconciler.placement.needs import Bin, Need

State = tuple[int, ...]
"""Kind, host RAM, cores, then the free GPUs of each class of the kind."""

UNLIMITED = 1 << 60
"""Stands for what the inventory does not state; it never falls."""

MEMORY, CORES, GPUS = 1, 2, 3
"""Positions in a state; the first of the GPUs."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Nodes that are alike in everything that any need asks for."""

    classes: tuple[str, ...]
    """GPU classes, in the order of a state."""
    labels: frozenset[tuple[str, str]]
    """Of those that some `select` names."""
    start: State
    """When nothing runs."""
    nodes: tuple[str, ...]
    """Names, sorted."""


class Board:
    """All nodes, for needs that are known beforehand."""

    def __init__(self, bins: Iterable[Bin], needs: Iterable[Need]) -> None:
        known = tuple(dict.fromkeys(needs))
        classes = {need.gpu_class for need in known} - {None}
        pairs = frozenset().union(*(need.select for need in known))
        keys = sorted({label for label, _ in pairs})
        names: dict[tuple[tuple[tuple[str, int], ...], int, int, frozenset[tuple[str, str]]], list[str]] = {}
        for each in bins:
            gpus = tuple(sorted((name, count) for name, count in each.gpus.items() if name in classes and count))
            memory = UNLIMITED if each.memory is None else each.memory
            cores = UNLIMITED if each.cpu_cores is None else each.cpu_cores
            labels = frozenset((key, each.labels[key]) for key in keys if key in each.labels) & pairs
            names.setdefault((gpus, memory, cores, labels), []).append(each.name)
        self.kinds: tuple[Kind, ...] = tuple(_kinds(names))
        self._kinds_by_label: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for number, kind in enumerate(self.kinds):
            for label in kind.labels:
                self._kinds_by_label[label].add(number)
        self._eligible: dict[Need, tuple[int, ...]] = {}
        self._positions: dict[tuple[str | None, frozenset[tuple[str, str]]], Mapping[int, int]] = {}

    def start(self) -> dict[State, list[str]]:
        """Every node by its state when nothing runs, names sorted."""
        return {kind.start: list(kind.nodes) for kind in self.kinds}

    def fitting(self, need: Need, states: Iterable[State]) -> Iterator[State]:
        """Those states whose nodes can take a part of such a replica."""
        positions, gpus, memory, cores = self._counted_at(need), need.gpus, need.memory, need.cpu_cores
        for state in states:
            position = positions.get(state[0])
            if position is None or memory > state[MEMORY] or cores > state[CORES]:
                continue
            if not gpus or state[position] >= gpus:
                yield state

    def after(self, need: Need, state: State) -> State:
        """What is left of a node in this state, which fits, once it has taken its part of a replica."""
        left = list(state)
        if need.gpus:
            left[self._counted_at(need)[state[0]]] -= need.gpus
        if left[MEMORY] != UNLIMITED:
            left[MEMORY] -= need.memory
        if left[CORES] != UNLIMITED:
            left[CORES] -= need.cpu_cores
        return tuple(left)

    def free(self, need: Need, state: State) -> int:
        """GPUs of the need's class that are free on a node; 0 on CPUs and where it is not selected."""
        position = self._counted_at(need).get(state[0], 0)
        return state[position] if position else 0

    def offers(self, need: Need, state: State) -> bool:
        """Whether a node in this state has anything of what the need asks for at all, free or not."""
        return state[0] in self._counted_at(need)

    def rank(self, gpu_class: str | None, state: State) -> tuple[int, ...]:
        """Rank of a node for best fit, least first: what is free of the class, then the rest of it."""
        if gpu_class is None:  # host RAM of a GPU node is better left to models on its GPUs
            return (sum(state[GPUS:]) > 0, state[CORES], state[MEMORY], *state)
        free = state[GPUS + self.kinds[state[0]].classes.index(gpu_class)]
        return (free, sum(state[GPUS:]), state[MEMORY], state[CORES], *state)

    def most(self, need: Need, state: State) -> int:
        """How many parts of such replicas a node takes at most, were it for nothing else."""
        if not any(self.fitting(need, (state,))):
            return 0
        limits = [self.free(need, state) // need.gpus] if need.gpus else []
        limits += [state[at] // size for at, size in ((MEMORY, need.memory), (CORES, need.cpu_cores)) if size]
        return min(limits, default=UNLIMITED)

    def takes(self, need: Need) -> bool:
        """Whether the empty fleet could run one such replica."""
        return sum(len(self.kinds[kind].nodes) for kind in self.eligible(need)) >= need.nodes

    def eligible(self, need: Need) -> tuple[int, ...]:
        """The kinds whose empty nodes take a part of such a replica, ascending."""
        if need not in self._eligible:
            starts = (self.kinds[number].start for number in self._counted_at(need))
            self._eligible[need] = tuple(state[0] for state in self.fitting(need, starts))
        return self._eligible[need]

    def _counted_at(self, need: Need) -> Mapping[int, int]:
        """The kinds that a need may use at all, ascending, each with the place of its class in a state; 0 on CPUs."""
        key = (need.gpu_class, need.select)
        if key not in self._positions:
            selected = (
                sorted(set.intersection(*(self._kinds_by_label[label] for label in need.select)))
                if need.select
                else range(len(self.kinds))
            )
            if need.gpu_class is None:
                self._positions[key] = dict.fromkeys(selected, 0)
            else:
                classes = ((number, self.kinds[number].classes) for number in selected)
                self._positions[key] = {
                    number: GPUS + each.index(need.gpu_class) for number, each in classes if need.gpu_class in each
                }
        return self._positions[key]


def _kinds(
    names: Mapping[tuple[tuple[tuple[str, int], ...], int, int, frozenset[tuple[str, str]]], Sequence[str]],
) -> Iterator[Kind]:
    # By content and not by who comes first, so that the order of documents changes nothing.
    ordered = sorted(names.items(), key=lambda item: (*item[0][:3], sorted(item[0][3])))
    for number, ((gpus, memory, cores, labels), each) in enumerate(ordered):
        start = (number, memory, cores, *(count for _, count in gpus))
        yield Kind(tuple(name for name, _ in gpus), labels, start, tuple(sorted(each)))
