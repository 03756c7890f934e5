"""Where one more replica goes: spread over nodes, then in one island, then best fit, so that whole nodes stay whole.

Replicas of one model go to different nodes first, since serving survives the loss of any one node (promise 6). Where
that would cost some model its place, `placement.spread` says so, and best fit goes first.
A replica over several nodes gets all of them or none; they share a `fabric` label where one has room for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING

from reconciler.domain.placement import PlacedGpu, Shard
from reconciler.placement.fabric import fabrics
from reconciler.placement.islands import LEVELS, choose
from reconciler.placement.room import Holding
from reconciler.placement.stock import unselected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from reconciler.placement.demand import Demand
    from reconciler.placement.room import NodeRoom, Room

SLACK_GIB = 1e-6
"""Host RAM, GiB, by which sums of fractions may be off: 0.1 and 0.2 fit into 0.3."""

_FEW = 64
"""Nodes that a `select` leaves, up to which each is looked at instead of all nodes in order of their free GPUs."""


class Preference(StrEnum):
    """What counts most where several nodes have room."""

    SPREAD = "spread"
    """A node without a replica of the model."""
    PACK = "pack"
    """The node that keeps the fewest GPUs free."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one replica fits, and under which demand."""

    demand: Demand
    shards: tuple[Shard, ...]
    """As a placement states it."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its nodes, in shard order."""
        return tuple(shard.node for shard in self.shards)

    def holdings(self, id_: str, slot: str, model: str) -> Iterator[tuple[str, Holding]]:
        """What the replica would take, node by node."""
        for shard in self.shards:
            uuids = tuple(gpu.uuid for gpu in shard.gpus)
            yield shard.node, Holding(id_, slot, model, uuids, self.demand.memory_gib, self.demand.cpu_cores)

    def take(self, room: Room, id_: str, slot: str, model: str) -> None:
        """Give the seat away."""
        for node, holding in self.holdings(id_, slot, model):
            room.take(node, holding)


def find_seat(
    room: Room,
    demands: Iterable[Demand],
    model: str,
    preference: Preference = Preference.SPREAD,
    *,
    leaving: Iterable[str] = (),
) -> Seat | None:
    """The seat of the first demand that fits anywhere; None when none does. Takes nothing.

    `leaving` names the nodes of the replica that this one replaces, which does not count as one of its model there.
    """
    own = room.nodes_by_model.get(model, {})
    for node in leaving:
        if node in own:
            own = {**own, node: own[node] - 1}
    for demand in demands:
        seat = _of_one_node(room, demand, own, preference) if demand.nodes == 1 else _of_several(room, demand, own)
        if seat is not None:
            return seat
    return None


def misfit(room: NodeRoom, demand: Demand) -> str | None:
    """Why a node cannot take a replica apart from its GPUs, as one clause; None when it can."""
    engine = demand.profile.engine
    if room.engines is not None and engine not in room.engines:
        return f"lacks {engine}"
    node = room.node
    reason = unselected(demand.profile, node) if demand.profile.select else None
    if reason is not None:
        return f"is not selected ({reason})"
    if node.memory_gib is not None and 0 < demand.memory_gib > node.memory_gib - room.memory_gib + SLACK_GIB:
        left = max(node.memory_gib - room.memory_gib, 0)
        return f"has {left:g} of {node.memory_gib:g} GiB host RAM left, {demand.memory_gib:g} needed"
    if node.cpu_cores is not None and 0 < demand.cpu_cores > node.cpu_cores - room.cpu_cores:
        left_cores = max(node.cpu_cores - room.cpu_cores, 0)
        return f"has {left_cores} of {node.cpu_cores} cores left, {demand.cpu_cores} needed"
    return None


def _of_one_node(room: Room, demand: Demand, own: Mapping[str, int], preference: Preference) -> Seat | None:
    selected = room.selected(demand.profile.select) if demand.profile.select else None
    if demand.gpu_class is None:
        names = _of_cpus(room, demand, own, room.by_name if selected is None else selected)
    elif selected is not None and len(selected) <= _FEW:
        names = _of_few(room, demand, own, preference, selected)
    elif preference is Preference.SPREAD:
        names = _spread(room, demand, own)
    else:
        names = _packed(room, demand, own)
    return None if names is None else _seat(room, demand, (names,))


def _spread(room: Room, demand: Demand, own: Mapping[str, int]) -> str | None:
    """A node without a replica of the model, else the one with the fewest; of those the best island, then best fit."""
    used = {name: count for name, count in own.items() if count > 0}
    best: tuple[int, int, str] | None = None
    for free, name in _by_free(room, demand):
        if name in used or (best is not None and best[0] == 0):
            continue
        level = _level(room.by_name[name], demand)
        if misfit(room.by_name[name], demand) is None:
            if level == 0:
                return name  # the fewest free first, then by name: none that follows is better
            best = min(best or (level, free, name), (level, free, name))
    return best[2] if best is not None else _of_few(room, demand, own, Preference.SPREAD, used)


def _packed(room: Room, demand: Demand, own: Mapping[str, int]) -> str | None:
    best: tuple[int, int, int, str] | None = None
    for free, name in _by_free(room, demand):
        if best is not None and best[:2] < (0, free):
            break
        if misfit(room.by_name[name], demand) is None:
            key = (_level(room.by_name[name], demand), free, own.get(name, 0), name)
            best = min(best or key, key)
            if best[:3] == (0, free, 0):
                break
    return None if best is None else best[3]


def _by_free(room: Room, demand: Demand) -> Iterator[tuple[int, str]]:
    """Nodes with enough free GPUs, the fewest first, then by name."""
    by_free = room.buckets.get(demand.gpu_class or "", {})
    for free in sorted(count for count, names in by_free.items() if names and count >= demand.gpus):
        for name in by_free[free]:
            yield free, name


def _of_few(
    room: Room, demand: Demand, own: Mapping[str, int], preference: Preference, names: Iterable[str]
) -> str | None:
    fitting = [room.by_name[name] for name in names if name in room.by_name and _takes(room.by_name[name], demand)]

    def rank(node: NodeRoom) -> tuple[int, ...]:
        count, level, free = own.get(node.node.name, 0), _level(node, demand), _free(node, demand)
        return (count, level, free) if preference is Preference.SPREAD else (level, free, count)

    return min(fitting, key=lambda node: (*rank(node), node.node.name)).node.name if fitting else None


def _of_cpus(room: Room, demand: Demand, own: Mapping[str, int], names: Iterable[str]) -> str | None:
    """Nodes without GPUs first: host RAM of a GPU node is better left to models on its GPUs."""
    fitting = [room.by_name[name] for name in names if misfit(room.by_name[name], demand) is None]
    return min(fitting, key=lambda node: _cpu_rank(node, own)).node.name if fitting else None


def _cpu_rank(node: NodeRoom, own: Mapping[str, int]) -> tuple[bool, int, float, float, str]:
    cores = inf if node.node.cpu_cores is None else node.node.cpu_cores - node.cpu_cores
    memory_gib = inf if node.node.memory_gib is None else node.node.memory_gib - node.memory_gib
    return bool(node.free), own.get(node.node.name, 0), cores, memory_gib, node.node.name


def _of_several(room: Room, demand: Demand, own: Mapping[str, int]) -> Seat | None:
    """All of its nodes from the fabric with the best of them, or None."""

    def rank(name: str) -> tuple[int, int, int, str]:
        node = room.by_name[name]
        return own.get(name, 0), _level(node, demand), _free(node, demand), name

    best: tuple[tuple[int, int, int], str, list[str]] | None = None
    fitting = [name for name, node in room.by_name.items() if _takes(node, demand)]
    for fabric, names in fabrics(room, demand, fitting):
        chosen = sorted(names, key=rank)[: demand.nodes]
        ranks = [rank(name) for name in chosen]
        worst = (sum(each[0] for each in ranks), max(each[1] for each in ranks), sum(each[2] for each in ranks))
        best = min(best or (worst, fabric, chosen), (worst, fabric, chosen))
    return None if best is None else _seat(room, demand, sorted(best[2]))


def _takes(node: NodeRoom, demand: Demand) -> bool:
    return _free(node, demand) >= demand.gpus and misfit(node, demand) is None


def _free(node: NodeRoom, demand: Demand) -> int:
    return len(node.free.get(demand.gpu_class, ())) if demand.gpu_class is not None else 0


def _level(node: NodeRoom, demand: Demand) -> int:
    """How good the best set of GPUs of a node is; see `islands.choose`."""
    if not node.links or demand.gpus <= 1:
        return 0
    free = node.free[demand.gpu_class or ""]
    return choose(free, node.links, demand.gpus)[0] if len(free) >= demand.gpus else len(LEVELS)


def _seat(room: Room, demand: Demand, names: Iterable[str]) -> Seat:
    shards = []
    for name in names:
        node = room.by_name[name]
        free = node.free[demand.gpu_class] if demand.gpu_class is not None else ()
        _, gpus = choose(free, node.links, demand.gpus)
        shards.append(Shard(node=name, gpus=tuple(PlacedGpu(uuid=uuid, index=index) for index, uuid in gpus)))
    return Seat(demand, tuple(shards))
