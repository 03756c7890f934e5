"""What a node offers the fleet, and whether a running replica still belongs where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.model_spec import Profile
    from reconciler.domain.observed import ObservedGpu, ReachableNode
    from reconciler.domain.placement import Placement


@dataclass(frozen=True, slots=True)
class Stock:
    """One node that was heard, with what the inventory gives the fleet of it."""

    heard: ReachableNode
    node: Node | None
    """Its line in the inventory; None when it has left."""
    gpus: Mapping[str, ObservedGpu]
    """The fleet's GPUs by UUID."""
    beyond: frozenset[str]
    """UUIDs of reported GPUs that the inventory does not give the fleet."""


def stock(desired: Desired, heard: ReachableNode) -> Stock:
    """Take of each class the first `count` GPUs by index: a machine may have more than the fleet was given."""
    node = desired.node_by_name.get(heard.name)
    left: dict[str, int] = {}
    for group in node.gpus if node is not None else ():
        gpu_class = f"{group.gpu_class}/{group.mig}" if group.mig else group.gpu_class
        left[gpu_class] = left.get(gpu_class, 0) + group.count
    ours: dict[str, ObservedGpu] = {}
    beyond = set()
    for gpu in sorted(heard.gpus, key=lambda each: each.index):
        if left.get(gpu.gpu_class, 0) > 0:
            left[gpu.gpu_class] -= 1
            ours[gpu.uuid] = gpu
        elif gpu.answers:  # one that does not answer is unknown, its class too
            beyond.add(gpu.uuid)
    return Stock(heard, node, ours, frozenset(beyond))


def selects(select: Mapping[str, str], node: Node) -> bool:
    """Whether a node matches every label of a `select`."""
    return all(label_of(node, label) == wanted for label, wanted in select.items())


def label_of(node: Node, label: str) -> str | None:
    """A node's label; `node` is its name."""
    return node.name if label == "node" else node.labels.get(label)


def unselected(profile: Profile, node: Node) -> str | None:
    """Why a profile's `select` leaves a node out; None when it does not."""
    for label, wanted in (profile.select or {}).items():
        has = label_of(node, label)
        if has != wanted:
            return f"label {label} is {has or 'not set'}, not {wanted}"
    return None


def displaced(stock: Stock, placement: Placement, profiles: Iterable[Profile]) -> str | None:
    """Why a running replica no longer belongs on this node, as one clause; None when it does.

    `profiles` are those of its model that would run it as it runs; one whose `select` still takes the node is enough.
    A GPU that the node does not report at all displaces nothing: not to be read is not to be gone (promise 2).
    """
    node = stock.node
    if node is None:
        return f"{stock.heard.name} has left the inventory"
    if node.drain:
        return f"{node.name} is drained"
    for gpu in (gpu for shard in placement.shards if shard.node == node.name for gpu in shard.gpus):
        ours = stock.gpus.get(gpu.uuid)
        if gpu.uuid in stock.beyond:
            return f"the inventory no longer lists GPU {gpu.index} of {node.name} with its class"
        if (ours.index if ours else gpu.index) in node.drain_gpus:
            return f"GPU {gpu.index} of {node.name} is drained"
    reasons = [unselected(profile, node) for profile in profiles]
    if reasons and None not in reasons:
        return f"{node.name}: {reasons[0]}"
    return None
