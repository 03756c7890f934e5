"""What the nodes of an inventory offer, indexed so that a rule asks once a profile and not once a node."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.gate.card import SLICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from reconciler.domain.desired import Desired, Node

GPU_COUNTS = range(1, 65)
"""GPUs one node may have, and one replica may take on it (design section 3): the largest machines sold hold 16 cards,
and MIG slices make 56 of 8."""

NODE = "node"
"""The key of `select` that names a node instead of a label."""


def is_known(desired: Desired, gpu_class: str) -> bool:
    """Whether a GPU class is built in or the fleet's own, or a MIG slice of one that is."""
    if gpu_class in desired.classes:
        return True
    found = SLICE.match(gpu_class)
    return found is not None and found["card"] in desired.classes


@dataclass(frozen=True, slots=True)
class Kind:
    """Nodes that offer the same for one GPU class."""

    gpus: int
    """GPUs of the class on each, drained ones included."""
    in_service: int
    """Those that are not drained."""
    memory_gib: float | None
    """Host RAM; None where the inventory does not say, which is unknown and not too small."""
    cpu_cores: int | None
    drain: bool
    nodes: tuple[str, ...]
    """Their names, sorted."""

    def takes(self, gpus: int) -> bool:
        """Whether this many GPUs could be placed on each of them today."""
        return not self.drain and self.in_service >= gpus


class Inventory:
    """The nodes by label and by what they offer. Drained nodes and GPUs count as existing: a drain ends."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self._kinds: dict[tuple[str | None, frozenset[tuple[str, str]]], tuple[Kind, ...]] = {}

    def kinds(self, gpu_class: str | None, select: Mapping[str, str]) -> tuple[Kind, ...]:
        """What selected nodes offer, most GPUs first; with a class only nodes that have it, without one all of them."""
        key = (gpu_class, frozenset(select.items()))
        if key not in self._kinds:
            self._kinds[key] = tuple(self._group(gpu_class, select))
        return self._kinds[key]

    def selected(self, select: Mapping[str, str]) -> tuple[Node, ...]:
        """The nodes that match every label, in order of their names."""
        return tuple(self.nodes[position] for position in self._positions(select))

    def values(self, label: str) -> tuple[str, ...]:
        """The values a label has on any node, sorted."""
        return tuple(sorted(value for key, value in self._positions_by_label if key == label))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Every label key on any node, sorted."""
        return tuple(sorted({key for key, _ in self._positions_by_label} - {NODE}))

    @cached_property
    def classes(self) -> Mapping[str, int]:
        """Each GPU class here with the most GPUs of it on one node, sorted by class."""
        most: dict[str, int] = {}
        for offers in self._offers:
            for gpu_class, (count, _) in offers.items():
                most[gpu_class] = max(count, most.get(gpu_class, 0))
        return dict(sorted(most.items()))

    def _group(self, gpu_class: str | None, select: Mapping[str, str]) -> Iterator[Kind]:
        names_by_offer: defaultdict[tuple[int, int, float | None, int | None, bool], list[str]] = defaultdict(list)
        for position in self._positions(select):
            node = self.nodes[position]
            gpus, in_service = (0, 0) if gpu_class is None else self._offers[position].get(gpu_class, (0, 0))
            if gpu_class is None or gpus:
                names_by_offer[gpus, in_service, node.memory_gib, node.cpu_cores, node.drain].append(node.name)
        for offer, names in sorted(names_by_offer.items(), key=lambda item: (-item[0][0], item[1])):
            yield Kind(*offer, tuple(names))

    def _positions(self, select: Mapping[str, str]) -> Iterable[int]:
        if not select:
            return range(len(self.nodes))
        found = (self._positions_by_label.get(label, frozenset()) for label in select.items())
        return sorted(frozenset.intersection(*found))

    @cached_property
    def _offers(self) -> tuple[Mapping[str, tuple[int, int]], ...]:
        return tuple(_offered(node) for node in self.nodes)

    @cached_property
    def _positions_by_label(self) -> Mapping[tuple[str, str], frozenset[int]]:
        positions: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for position, node in enumerate(self.nodes):
            for label in {**node.labels, NODE: node.name}.items():
                positions[label].add(position)
        return {label: frozenset(found) for label, found in positions.items()}


def _offered(node: Node) -> Mapping[str, tuple[int, int]]:
    """GPUs of each class on a node: how many, and how many of them are not drained.

    Counts outside 1 to 64 are another rule's matter and are clipped, so that no typing error makes a huge list.
    """
    count: Counter[str] = Counter()
    drained: Counter[str] = Counter()
    first = 0
    for group in node.gpus:
        gpu_class = f"{group.gpu_class}/{group.mig}" if group.mig else group.gpu_class
        size = min(max(group.count, 0), GPU_COUNTS[-1])
        count[gpu_class] += size
        drained[gpu_class] += sum(1 for index in set(node.drain_gpus) if first <= index < first + size)
        first += size
    return {
        gpu_class: (size, 0 if node.drain else size - drained[gpu_class]) for gpu_class, size in count.items() if size
    }
