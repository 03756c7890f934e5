"""Which nodes may share one replica: those on one fast network, as far as their labels say.

The label `fabric` names the network that a node's GPUs are reached over. Ranks of one replica talk at every token, so
a replica is not spread over two networks while one of them is large enough.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from reconciler.domain.desired import Node
    from reconciler.placement.demand import Demand
    from reconciler.placement.room import Room

FABRIC = "fabric"
"""The label."""


def by_fabric(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """Names of nodes by fabric, sorted; those that state none are under the empty name."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        names[node.labels.get(FABRIC, "")].append(node.name)
    return {fabric: sorted(each) for fabric, each in sorted(names.items())}


def is_declared(groups: dict[str, list[str]], count: int) -> bool:
    """Whether some fabric that is declared has so many nodes."""
    return any(len(names) >= count for fabric, names in groups.items() if fabric)


def fabrics(room: Room, demand: Demand, fitting: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """The groups of nodes with room from which a replica may take all its nodes.

    One declared fabric each. Only where no declared one could ever hold it, full or not, all nodes are one group: what
    is not declared is not known, and `inventory/fabric` has warned of it.
    """
    everywhere = [room.by_name[name].node for name in sorted(room.by_name)] + [node for node, _ in room.closed.values()]
    able = [node for node in everywhere if _could_take(node, demand)]
    groups = by_fabric(room.by_name[name].node for name in fitting)
    if not is_declared(by_fabric(able), demand.nodes):
        groups = {"": sorted(fitting)}
    else:
        groups.pop("", None)
    yield from ((fabric, names) for fabric, names in groups.items() if len(names) >= demand.nodes)


def _could_take(node: Node, demand: Demand) -> bool:
    return demand.is_selected(node) and (demand.gpu_class is None or node.count(demand.gpu_class) >= demand.gpus)
