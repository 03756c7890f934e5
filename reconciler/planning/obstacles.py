"""What stands in the way of one more replica, node by node: GPUs that are free, held, drained or silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.why import WhyNode
from reconciler.placement.fit import misfit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.desired import Node
    from reconciler.domain.observed import Observation
    from reconciler.placement.demand import Demand
    from reconciler.placement.room import NodeRoom, Room

NAMED = 8
"""Nodes that are told one by one, the nearest to enough first: a screen holds them and the ways out."""


def obstacles(room: Room, observed: Observation, demands: Sequence[Demand]) -> tuple[tuple[WhyNode, ...], int]:
    """A line for each node that has what some demand asks for, and how many more there are."""
    silent = {node.name: node for node in observed.unreachable}
    ranked: list[tuple[int, str, str]] = []
    for name, (node, why) in room.closed.items():
        if any(_has(node, demand) for demand in demands):
            since = silent[name].since if name in silent else None
            told = why
            if name in silent:
                heard = (
                    f"not heard since {since:%H:%M} UTC" if since is not None else f"not heard ({silent[name].reason})"
                )
                told = f"{heard}: unreachable is not free"
            ranked.append((1, name, told))
    for name, there in room.by_name.items():
        lines = [(_short(there, demand), _line(there, demand)) for demand in demands if _has(there.node, demand)]
        if lines:
            told = "; ".join(dict.fromkeys(line for _, line in lines))
            ranked.append((min(short for short, _ in lines), name, told))
    ranked.sort()
    shown = tuple(WhyNode(node=name, message=told) for _, name, told in ranked[:NAMED])
    return shown, max(0, len(ranked) - NAMED)


def _has(node: Node, demand: Demand) -> bool:
    return demand.gpu_class is None or demand.gpu_class in node.gpu_class_by_index()


def _short(there: NodeRoom, demand: Demand) -> int:
    """How many GPUs are missing here; what no GPU would cure counts one."""
    if demand.gpu_class is None:
        return 0
    missing = demand.gpus - len(there.free.get(demand.gpu_class, ()))
    return max(0, missing) + (misfit(there, demand) is not None)


def _line(there: NodeRoom, demand: Demand) -> str:
    unfit = misfit(there, demand)
    if demand.gpu_class is None:
        return unfit or "has room"
    gpu_class = demand.gpu_class
    free, total = len(there.free.get(gpu_class, ())), there.total(gpu_class)
    told = f"{free} of {total} {gpu_class} free"
    holders = _holders(there, gpu_class)
    if holders:
        told += f": {', '.join(holders)}"
    unusable = sorted(there.unusable.values(), key=lambda each: each.index)
    buts = [f"GPU {each.index} {each.reason}" for each in unusable if each.gpu_class == gpu_class]
    buts += [] if unfit is None else [f"it {unfit}"]
    return f"{told}, but {', '.join(buts)}" if buts else told


def _holders(there: NodeRoom, gpu_class: str) -> list[str]:
    """Slots that hold GPUs of the class here, sorted; the unusable ones included."""
    class_by_uuid = {uuid: each for uuid, (each, _) in there.gpus.items()}
    class_by_uuid |= {uuid: each.gpu_class for uuid, each in there.unusable.items()}
    labels = {
        holding.label
        for holding in there.holdings.values()
        if any(class_by_uuid.get(uuid) == gpu_class for uuid in holding.gpus)
    }
    return sorted(labels)
