"""Where the nodes of one replica meet: their addresses as declared, and a block of ports that is free on each."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reconciler.domain.observed import ReachableNode
from reconciler.domain.port_blocks import PortRange, free_block

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.desired import Desired
    from reconciler.domain.observed import Observation
    from reconciler.domain.placement import Placement


def addresses(desired: Desired, placement: Placement) -> tuple[str, ...]:
    """Host names of its nodes, in the order of its shards; the node's own name where no address is declared.

    Empty for a replica of one node, which meets nobody.
    """
    if len(placement.shards) == 1:
        return ()
    return tuple(_host(desired, name) for name in placement.nodes)


def port_block(observed: Observation, placement: Placement, decided: Iterable[RunEntry]) -> int | None:
    """First port of its block: of no other replica that one of its nodes holds or was just given (`decided`).

    None for a replica of one node. Where every block is taken it is the one that follows from its id: its agents then
    say that its ports are in use.
    """
    if len(placement.shards) == 1:
        return None
    nodes = set(placement.nodes)
    seen = [each if isinstance(each, ReachableNode) else each.last for each in observed.nodes]
    known = [node for node in seen if node is not None and node.name in nodes]
    held = (replica.entry for node in known for replica in node.replicas)
    taken = {entry.port for entry in (*held, *decided) if entry.port is not None and nodes & set(entry.placement.nodes)}
    ranges = [node.block_ports or PortRange() for node in known] or [PortRange()]
    start = int(placement.id.rpartition("@")[2], 16)
    return free_block(ranges, taken, start) or free_block(ranges, (), start)


def _host(desired: Desired, name: str) -> str:
    node = desired.node_by_name.get(name)
    host = urlsplit(node.address).hostname if node is not None and node.address is not None else None
    return host or name
