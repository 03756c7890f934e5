"""What the GPUs of one replica should have in common: their class, and the network between their nodes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from reconciler.gate.capacity import GPU_COUNTS
from reconciler.gate.phrases import listed
from reconciler.placement.fabric import by_fabric, is_declared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.finding import Problem
    from reconciler.gate.subject import Context


def apart(context: Context) -> Iterator[Problem]:
    """Replicas over several nodes that no label puts on one network."""
    for use in context.uses:
        count, inventory = use.profile.nodes, context.inventory
        if count == 1 or inventory is None or use.profile.gpu_class is None:
            continue
        kinds = inventory.kinds(use.profile.gpu_class, use.profile.select or {})
        able = {name for kind in kinds if kind.gpus >= use.gpus for name in kind.nodes}
        groups = by_fabric(node for node in inventory.nodes if node.name in able)
        if len(able) < count or is_declared(groups, count):
            continue  # inventory/node-too-small, or all is well
        named = [f"{name or 'without a label'}: {listed(nodes)}" for name, nodes in groups.items()]
        if set(groups) == {""}:
            message = f"nothing says that {count} of {listed(sorted(able))} are on one fast network"
        else:
            message = f"no fabric has {count} nodes that can take a part ({'; '.join(named)})"
        yield use.problem((), message, "label the nodes of each network: labels: {fabric: NAME}")


def unlike(context: Context) -> Iterator[Problem]:
    """Replicas for which a node has enough GPUs, and not of one class."""
    if context.inventory is None:
        return
    for use in context.uses:
        gpu_class, select = use.profile.gpu_class, use.profile.select or {}
        if gpu_class is None or use.gpus not in GPU_COUNTS:
            continue
        kinds = context.inventory.kinds(gpu_class, select)
        if any(kind.gpus >= use.gpus for kind in kinds):
            continue
        names = {name for kind in kinds for name in kind.nodes}
        for node in context.inventory.nodes:
            held = Counter(node.gpu_class_by_index()) if node.name in names else Counter[str]()
            if held.total() >= use.gpus:
                have = " and ".join(f"{number} {each}" for each, number in sorted(held.items()))
                message = f"a replica's GPUs are of one class; {node.name} has {have}, which are not {use.gpus} of one"
                yield use.problem("gpu_class", message, f"gpus: {held[gpu_class]}")
                break
