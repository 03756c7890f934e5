"""Why nothing fits, with numbers: which node has how much free, and who holds the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.placement.fit import misfit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.placement.demand import Demand
    from reconciler.placement.room import NodeRoom, Room

NAMED_NODES = 3
"""Nodes named one by one in a reason, the fullest answers first: more do not help a person decide."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why no node takes a replica."""

    message: str
    """What it needs and what each node has, for all profiles."""
    shortage: str
    """The shortest form, such as `no node has 2 h100-80gb free (1 at most, gpu-03)`."""
    hint: str
    """What would help."""


def refuse(room: Room, demands: Sequence[Demand]) -> Refusal:
    """Explain why `find_seat` found nothing in this room."""
    if not demands:
        return Refusal("it has no profile", "it has no profile", "give it a profile")
    refusals = [_refuse(room, demand) for demand in demands]
    if len(refusals) == 1:
        return refusals[0]
    named = [f"profile {way.profile.name} {each.message}" for way, each in zip(demands, refusals, strict=True)]
    shortages = dict.fromkeys(each.shortage for each in refusals)
    return Refusal("; ".join(named), "; ".join(shortages), refusals[0].hint)


def _refuse(room: Room, demand: Demand) -> Refusal:
    if demand.gpu_class is None:
        return _refuse_cpus(room, demand)
    return _refuse_gpus(room, demand, demand.gpu_class)


def _refuse_gpus(room: Room, demand: Demand, gpu_class: str) -> Refusal:
    by_free = room.buckets.get(gpu_class, {})
    offering = [room.by_name[name] for free in sorted(by_free, reverse=True) for name in by_free[free]]
    lines = [_gpu_line(node, demand, gpu_class) for node in offering[:NAMED_NODES]]
    lines += _rest(len(offering)) + _closed(room, gpu_class)
    each = "on one node" if demand.nodes == 1 else f"on each of {demand.nodes} nodes"
    needs = f"it needs {demand.gpus} {gpu_class} {each}"
    if not lines:
        text = f"no node of the inventory has {gpu_class}"
        return Refusal(f"{needs}; {text}", text, "add nodes of that class, or ask for another")
    shortage = f"no node has {demand.gpus} {gpu_class} free"
    able = next((node for node in offering if misfit(node, demand) is None), None)
    if demand.nodes > 1:
        shortage = _too_few([node for node in offering if misfit(node, demand) is None], demand, gpu_class)
    elif able is not None:
        shortage += f" ({len(able.free[gpu_class])} at most, {able.node.name})"
    elif not offering:
        shortage = f"no node with {gpu_class} takes new replicas ({', '.join(lines)})"
    else:
        shortage += f" that could take it ({offering[0].node.name} {misfit(offering[0], demand)})"
    return Refusal(f"{needs}; {', '.join(lines)}", shortage, _hint(offering, demand))


def _too_few(able: Sequence[NodeRoom], demand: Demand, gpu_class: str) -> str:
    """How many nodes have room for their part, and that they are not on one fabric where that is it."""
    free = sorted(node.node.name for node in able if len(node.free[gpu_class]) >= demand.gpus)
    if len(free) >= demand.nodes:
        return f"{len(free)} nodes have {demand.gpus} {gpu_class} free, and no {demand.nodes} of them on one fabric"
    have = f"{len(free)} {'has' if len(free) == 1 else 'have'} room"
    named = f" ({', '.join(free[:NAMED_NODES])})" if free else ""
    return f"{demand.nodes} nodes with {demand.gpus} {gpu_class} free each are needed, and {have}{named}"


def _gpu_line(node: NodeRoom, demand: Demand, gpu_class: str) -> str:
    free = len(node.free[gpu_class])
    line = f"{node.node.name} has {free} of {node.total(gpu_class)} free"
    unfit = misfit(node, demand)
    if free >= demand.gpus and unfit is not None:
        return f"{line} but {unfit}"
    class_by_uuid = {uuid: each for uuid, (each, _) in node.gpus.items()}
    class_by_uuid |= {uuid: each.gpu_class for uuid, each in node.unusable.items()}
    why = sorted(
        holding.label
        for holding in node.holdings.values()
        if any(class_by_uuid.get(uuid) == gpu_class for uuid in holding.gpus)
    )
    unusable = sorted(node.unusable.values(), key=lambda each: each.index)
    why += [f"GPU {each.index} {each.reason}" for each in unusable if each.gpu_class == gpu_class]
    return f"{line} ({', '.join(dict.fromkeys(why))})" if why else line


def _refuse_cpus(room: Room, demand: Demand) -> Refusal:
    nodes = list(room.by_name.values())
    lines = [f"{node.node.name} {misfit(node, demand) or 'has room'}" for node in nodes[:NAMED_NODES]]
    lines += _rest(len(nodes)) + _closed(room, None)
    cores = f"{demand.cpu_cores} core{'' if demand.cpu_cores == 1 else 's'}"
    needs = f"{demand.memory_gib:g} GiB of host RAM and {cores}"
    if not lines:
        return Refusal(f"it needs {needs}; the inventory has no node", "the inventory has no node", "add a node")
    shortage = f"no node has {needs} left ({lines[0]})"
    return Refusal(f"it needs {needs} on one node; {', '.join(lines)}", shortage, _hint(nodes, demand))


def _hint(nodes: Sequence[NodeRoom], demand: Demand) -> str:
    engine = demand.profile.engine
    if not nodes:
        return "bring one of them back into service, or add a node"
    if all(node.engines is not None and engine not in node.engines for node in nodes):
        return f"install {engine} where it is to run"
    return "make room: add nodes, lower a scaling.min, or ask for less"


def _rest(count: int) -> list[str]:
    return [f"{count - NAMED_NODES} others have no more than these"] if count > NAMED_NODES else []


def _closed(room: Room, gpu_class: str | None) -> list[str]:
    lines = [
        f"{name} {why}"
        for name, (node, why) in sorted(room.closed.items())
        if gpu_class is None or gpu_class in node.gpu_class_by_index()
    ]
    return lines[:NAMED_NODES] + ([f"{len(lines) - NAMED_NODES} more are closed"] if len(lines) > NAMED_NODES else [])
