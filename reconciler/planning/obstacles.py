"""What stands in the way of one more replica, node by node: GPUs that are free, held, drained or silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from reconciler.domain.observed import UnreachableNode
from reconciler.domain.why import WhyNode
from reconciler.placement.fit import misfit
from reconciler.placement.room import SILENT
from reconciler.planning.reaching import reach

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from reconciler.domain.desired import Node
    from reconciler.domain.observed import Observation
    from reconciler.placement.demand import Demand
    from reconciler.placement.room import NodeRoom, Room

SILENT_NAMED = 3
"""Nodes that do not answer and are told with what happened: each takes half a line."""

NAMED = 8
"""Nodes that are told one by one, the nearest to enough first: a screen holds them and the ways out."""


@dataclass(frozen=True, slots=True)
class Unheard:
    """Why nothing can be said of room."""

    head: str
    """How many nodes are silent, as one clause."""
    told: str
    """What happened when the first of them were asked."""
    hint: str
    """What a person does about it."""

    @property
    def text(self) -> str:
        """Both."""
        return f"{self.head} ({self.told})"


def obstacles(
    room: Room, observed: Observation, demands: Sequence[Demand], now: datetime
) -> tuple[tuple[WhyNode, ...], int]:
    """A line for each node that has what some demand asks for, and how many more there are."""
    ranked = [(1, name) for name, (node, _) in room.closed.items() if any(_has(node, each) for each in demands)]
    for name, there in room.by_name.items():
        short = min((_short(there, demand) for demand in demands if _has(there.node, demand)), default=None)
        if short is not None:
            ranked.append((short, name))
    ranked.sort()
    shown = tuple(WhyNode(node=name, message=_told(room, observed, demands, name, now)) for _, name in ranked[:NAMED])
    return shown, max(0, len(ranked) - NAMED)


def _told(room: Room, observed: Observation, demands: Sequence[Demand], name: str, now: datetime) -> str:
    there = room.by_name.get(name)
    if there is not None:
        return "; ".join(dict.fromkeys(_line(there, demand) for demand in demands if _has(there.node, demand)))
    why = room.closed[name][1]
    return silence(observed, name, now) if why == SILENT else why


def not_heard(room: Room, observed: Observation, demands: Sequence[Demand]) -> Unheard | None:
    """That no node which could run a replica answers; None where one does, or where there is none at all.

    Nothing is known of room then: neither that there is none, nor what is in the way.
    """
    if not room.closed or any(_could(there.node, demands) for there in room.by_name.values()):
        return None
    silent = sorted(name for name, (node, why) in room.closed.items() if why == SILENT and _could(node, demands))
    if not silent:
        return None
    told = ", ".join(f"{name}: {_lost(observed, name).reason}" for name in silent[:SILENT_NAMED])
    told += f", and {len(silent) - SILENT_NAMED} more" if len(silent) > SILENT_NAMED else ""
    hint = reach([room.closed[name][0] for name in silent])
    if len(silent) == 1:
        return Unheard("the only node that could run it does not answer", told, hint)
    return Unheard(f"none of the {len(silent)} nodes that could run it answers", told, hint)


def silence(observed: Observation, name: str, now: datetime) -> str:
    """Since when a node is silent, what happened when it was asked, and what that means."""
    lost = _lost(observed, name)
    since = "never heard" if lost.last is None else "not heard any more"
    if lost.since is not None:
        at = lost.since.astimezone(UTC)
        since = f"not heard since {f'{at:%H:%M}' if at.date() == now.date() else f'{at:%Y-%m-%d %H:%M}'} UTC"
    return f"{since} ({lost.reason}): unreachable is not free"


def _lost(observed: Observation, name: str) -> UnreachableNode:
    """What is known of a node of the inventory that does not answer; few are asked for, in whatever order nodes are."""
    found = next((node for node in observed.nodes if node.name == name), None)
    return found if isinstance(found, UnreachableNode) else UnreachableNode(name=name, reason="was not asked")


def _could(node: Node, demands: Sequence[Demand]) -> bool:
    """Whether a node is of those that a demand asks for, free or not."""
    return not node.drain and any(_has(node, demand) and demand.is_selected(node) for demand in demands)


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
