"""Who holds what on each node, and what is free: the ledger that placements are drawn from.

A GPU is free when no replica holds it, whatever that replica's state, and its node measured it free (promise 4).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from reconciler.placement.stock import selects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.desired import Node
    from reconciler.domain.observed import GpuLinks, ObservedGpu
    from reconciler.placement.stock import Stock

    Reserved = tuple[tuple[float, int], ...]

BUSY_MIB = 1_024
"""More used memory than this, MiB, on a GPU that no replica holds means that something else is on it.

Of the cards we know Gaudi2 uses the most when idle, 768 MiB; the smallest engine process takes more than 1 GiB.
It can fall when the agent tells apart what the driver itself uses.
"""


SILENT = "does not answer"
"""Why a node that was not heard takes nothing."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one replica takes of one node."""

    id: str
    label: str
    """How refusals name the holder: its slot, or whose it is."""
    model: str
    gpus: tuple[str, ...]
    """UUIDs."""
    memory_gib: float
    cpu_cores: int


@dataclass(frozen=True, slots=True)
class UnusableGpu:
    """A GPU of the fleet that cannot be given away, and why."""

    gpu_class: str
    index: int
    reason: str


@dataclass(slots=True)
class NodeRoom:
    """The room of one node; changed only through its `Room`."""

    node: Node
    engines: frozenset[str] | None
    """Installed engines; None when not known."""
    gpus: dict[str, tuple[str, int]]
    """Class and index by UUID, of all GPUs that could be given away."""
    unusable: dict[str, UnusableGpu]
    """By UUID."""
    free: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """By class: index and UUID, ascending."""
    holdings: dict[str, Holding] = field(default_factory=dict)
    """By replica id."""
    holders: dict[str, int] = field(default_factory=dict)
    """How many replicas hold a GPU, by UUID."""
    memory_gib: float = 0.0
    """Host RAM reserved."""
    cpu_cores: int = 0
    """Cores reserved."""
    links: dict[str, GpuLinks] = field(default_factory=dict)
    """What is known of how its GPUs are connected, by UUID."""

    def total(self, gpu_class: str) -> int:
        """The fleet's GPUs of a class here, usable or not."""
        usable = sum(1 for each, _ in self.gpus.values() if each == gpu_class)
        return usable + sum(1 for each in self.unusable.values() if each.gpu_class == gpu_class)

    def add(self, holding: Holding) -> None:
        """Enter a holding."""
        self.holdings[holding.id] = holding
        self.memory_gib += holding.memory_gib
        self.cpu_cores += holding.cpu_cores
        for uuid in holding.gpus:
            self.holders[uuid] = self.holders.get(uuid, 0) + 1
            if self.holders[uuid] == 1 and uuid in self.gpus:
                gpu_class, index = self.gpus[uuid]
                self.free[gpu_class].remove((index, uuid))

    def remove(self, id_: str) -> Holding:
        """Strike a holding out and return it."""
        holding = self.holdings.pop(id_)
        self.memory_gib -= holding.memory_gib
        self.cpu_cores -= holding.cpu_cores
        for uuid in holding.gpus:
            self.holders[uuid] -= 1
            if self.holders[uuid] == 0 and uuid in self.gpus:
                gpu_class, index = self.gpus[uuid]
                insort(self.free[gpu_class], (index, uuid))
        return holding

    def copy(self) -> NodeRoom:
        """An independent copy."""
        return NodeRoom(
            self.node,
            self.engines,
            self.gpus,
            self.unusable,
            {gpu_class: list(free) for gpu_class, free in self.free.items()},
            dict(self.holdings),
            dict(self.holders),
            self.memory_gib,
            self.cpu_cores,
            self.links,
        )


@dataclass(slots=True)
class Room:
    """The room of all nodes that take new replicas, indexed for best fit."""

    by_name: dict[str, NodeRoom]
    closed: dict[str, tuple[Node, str]]
    """Nodes of the inventory that take none, and why, by name."""
    buckets: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    """Names of nodes, sorted, by GPU class and number of free GPUs."""
    nodes_by_model: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many replicas of a model each node holds, where it holds any."""
    _shared: set[str] = field(default_factory=set)
    """Nodes whose room another copy holds too; it is copied before it is changed."""
    _selected: dict[frozenset[tuple[str, str]], tuple[str, ...]] = field(default_factory=dict)
    """Names of the nodes that a `select` leaves, sorted; the same for every copy, for labels do not change."""

    def __post_init__(self) -> None:
        if self._shared:
            return  # a copy comes with its indexes
        for name in sorted(self.by_name):
            room = self.by_name[name]
            self._index(room)
            for holding in room.holdings.values():
                self._count(holding.model, name, 1)

    def take(self, node: str, holding: Holding) -> None:
        """Give a replica its part of a node."""
        room = self._own(node)
        self._unindex(room)
        room.add(holding)
        self._index(room)
        self._count(holding.model, node, 1)

    def release(self, node: str, id_: str) -> Holding | None:
        """Take a replica's part of a node back; None when it held none there."""
        if node not in self.by_name or id_ not in self.by_name[node].holdings:
            return None
        room = self._own(node)
        self._unindex(room)
        holding = room.remove(id_)
        self._index(room)
        self._count(holding.model, node, -1)
        return holding

    def copy(self) -> Room:
        """An independent copy, whose nodes are copied only when one of the two changes them."""
        buckets = {each: {n: list(names) for n, names in by_free.items()} for each, by_free in self.buckets.items()}
        own = {model: dict(nodes) for model, nodes in self.nodes_by_model.items()}
        self.share()
        return Room(dict(self.by_name), self.closed, buckets, own, set(self.by_name), self._selected)

    def share(self) -> None:
        """Note that somebody else holds the rooms of its nodes too."""
        self._shared = set(self.by_name)

    def selected(self, select: Mapping[str, str]) -> tuple[str, ...]:
        """The nodes that match every label of a `select`, sorted by name."""
        key = frozenset(select.items())
        if key not in self._selected:
            matching = (name for name, each in self.by_name.items() if selects(select, each.node))
            self._selected[key] = tuple(sorted(matching))
        return self._selected[key]

    def _count(self, model: str, node: str, change: int) -> None:
        nodes = self.nodes_by_model.setdefault(model, {})
        nodes[node] = nodes.get(node, 0) + change
        if not nodes[node]:
            del nodes[node]

    def _own(self, name: str) -> NodeRoom:
        if name in self._shared:
            self._shared.discard(name)
            self.by_name[name] = self.by_name[name].copy()
        return self.by_name[name]

    def _index(self, room: NodeRoom) -> None:
        for gpu_class, free in room.free.items():
            insort(self.buckets.setdefault(gpu_class, {}).setdefault(len(free), []), room.node.name)

    def _unindex(self, room: NodeRoom) -> None:
        for gpu_class, free in room.free.items():
            names = self.buckets[gpu_class][len(free)]
            names.pop(bisect_left(names, room.node.name))


def build_room(
    inventory: Iterable[Node],
    stocks: Iterable[Stock],
    fleet: str,
    reserve: Callable[[RunEntry], tuple[float, int]],
    given_up: Mapping[str, str] = MappingProxyType({}),
    *,
    known: Callable[[Stock, Reserved, Callable[[], NodeRoom]], NodeRoom] | None = None,
) -> Room:
    """Enter everything the nodes report; `reserve` says what host RAM, GiB, and cores a running replica takes.

    `given_up` names further nodes that take no new replicas, each with a clause why. `known` may answer with the room
    of a node as it was worked out before; it is shared then, and copied before it is changed.
    """
    stock_by_name = {each.heard.name: each for each in stocks}
    by_name: dict[str, NodeRoom] = {}
    closed: dict[str, tuple[Node, str]] = {}
    for node in inventory:
        each = stock_by_name.get(node.name)
        if each is None:
            closed[node.name] = (node, SILENT)
        elif node.drain:
            closed[node.name] = (node, "is drained")
        elif node.name in given_up:
            closed[node.name] = (node, given_up[node.name])
        else:
            reserved = tuple(reserve(replica.entry) for replica in each.heard.replicas)
            work_out = partial(_node_room, node, each, fleet, reserved)
            by_name[node.name] = work_out() if known is None else known(each, reserved, work_out)
    room = Room(by_name, closed)
    if known is not None:
        room.share()
    return room


def _node_room(node: Node, stock: Stock, fleet: str, reserved: Reserved) -> NodeRoom:
    heard = stock.heard
    held = {uuid for replica in heard.replicas for uuid in replica.entry.placement.gpu_uuids}
    pid_by_uuid = {uuid: process.pid for process in heard.foreign for uuid in process.gpus}
    room = NodeRoom(node, frozenset(heard.engines) if heard.agent or heard.engines else None, {}, {})
    for uuid, gpu in stock.gpus.items():
        room.free.setdefault(gpu.gpu_class, [])
        reason = _why_unusable(gpu, node, pid_by_uuid.get(uuid), is_held=uuid in held)
        if reason is not None:
            room.unusable[uuid] = UnusableGpu(gpu.gpu_class, gpu.index, reason)
            continue
        room.gpus[uuid] = (gpu.gpu_class, gpu.index)
        if gpu.links is not None:
            room.links[uuid] = gpu.links
        room.free[gpu.gpu_class].append((gpu.index, uuid))
    for free in room.free.values():
        free.sort()
    for replica, (memory_gib, cpu_cores) in zip(heard.replicas, reserved, strict=True):
        entry = replica.entry
        slot = f"{entry.model}/{entry.ordinal}"
        uuids = tuple(
            sorted(gpu.uuid for shard in entry.placement.shards if shard.node == node.name for gpu in shard.gpus)
        )
        label = slot if entry.fleet == fleet else f"{slot} of fleet {entry.fleet}"
        room.add(Holding(entry.id, label, entry.model if entry.fleet == fleet else "", uuids, memory_gib, cpu_cores))
    return room


def _why_unusable(gpu: ObservedGpu, node: Node, pid: int | None, *, is_held: bool) -> str | None:
    if gpu.index in node.drain_gpus:
        return "is drained"
    if not gpu.answers:
        return "does not answer its driver"
    if pid is not None:
        return f"held by process {pid}, which is not the fleet's"
    if not is_held and (gpu.used_mib or 0) > BUSY_MIB:
        return f"has {(gpu.used_mib or 0) / 1_024:.1f} GiB in use by nothing of the fleet"
    return None
