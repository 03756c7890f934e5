"""Best fit: the node that keeps the fewest GPUs free after it, so that whole nodes stay whole.

What is equal then is spread: the node with the fewest replicas of the model, then the first by name.
Islands (NVLink, switch, NUMA) and replicas over several nodes have their place here and are not weighed yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from reconciler.domain.placement import PlacedGpu, Shard
from reconciler.placement.room import Holding
from reconciler.placement.stock import unselected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reconciler.placement.demand import Demand
    from reconciler.placement.room import NodeRoom, Room


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one replica fits, and under which demand."""

    demand: Demand
    node: str
    gpus: tuple[PlacedGpu, ...]

    @property
    def shards(self) -> tuple[Shard, ...]:
        """As a placement states it."""
        return (Shard(node=self.node, gpus=self.gpus),)

    def holding(self, id_: str, slot: str, model: str) -> Holding:
        """What the replica would take."""
        uuids = tuple(gpu.uuid for gpu in self.gpus)
        return Holding(id_, slot, model, uuids, self.demand.memory_gib, self.demand.cpu_cores)


def find_seat(room: Room, demands: Iterable[Demand], model: str) -> Seat | None:
    """The seat of the first demand that fits anywhere; None when none does. Takes nothing."""
    for demand in demands:
        if demand.declaration.nodes > 1:
            continue
        seat = _on_gpus(room, demand, model) if demand.gpu_class else _on_cpus(room, demand, model)
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
    if node.memory_gib is not None and 0 < demand.memory_gib > node.memory_gib - room.memory_gib:
        left = max(node.memory_gib - room.memory_gib, 0)
        return f"has {left:g} of {node.memory_gib:g} GiB host RAM left, {demand.memory_gib:g} needed"
    if node.cpu_cores is not None and 0 < demand.cpu_cores > node.cpu_cores - room.cpu_cores:
        left_cores = max(node.cpu_cores - room.cpu_cores, 0)
        return f"has {left_cores} of {node.cpu_cores} cores left, {demand.cpu_cores} needed"
    return None


def _on_gpus(room: Room, demand: Demand, model: str) -> Seat | None:
    by_free = room.buckets.get(demand.gpu_class or "", {})
    for free in sorted(count for count, names in by_free.items() if names and count >= demand.gpus):
        best: tuple[int, str] | None = None
        for name in by_free[free]:
            node = room.by_name[name]
            if misfit(node, demand) is not None:
                continue
            best = min(best or (node.own(model), name), (node.own(model), name))
            if best[0] == 0:
                break  # names ascend: no later one can be better
        if best is not None:
            node = room.by_name[best[1]]
            return Seat(demand, best[1], _lowest(node, demand))
    return None


def _lowest(node: NodeRoom, demand: Demand) -> tuple[PlacedGpu, ...]:
    """The lowest run of neighbouring indices that is long enough, else the lowest free ones."""
    free: Sequence[tuple[int, str]] = node.free[demand.gpu_class or ""]
    runs = (free[start : start + demand.gpus] for start in range(len(free) - demand.gpus + 1))
    chosen = next((run for run in runs if not run or run[-1][0] - run[0][0] == demand.gpus - 1), free[: demand.gpus])
    return tuple(PlacedGpu(uuid=uuid, index=index) for index, uuid in chosen)


def _on_cpus(room: Room, demand: Demand, model: str) -> Seat | None:
    """Nodes without GPUs first: host RAM of a GPU node is better left to models on its GPUs."""

    def rank(node: NodeRoom) -> tuple[bool, int, float, float, str]:
        cores = inf if node.node.cpu_cores is None else node.node.cpu_cores - node.cpu_cores
        memory_gib = inf if node.node.memory_gib is None else node.node.memory_gib - node.memory_gib
        return bool(node.free), node.own(model), cores, memory_gib, node.node.name

    fitting = [node for node in room.by_name.values() if misfit(node, demand) is None]
    return Seat(demand, min(fitting, key=rank).node.name, ()) if fitting else None
