"""A pool's file → its nodes: ranges expanded, and what a node does not say taken from its pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from reconciler.domain.desired import Node, Where
from reconciler.sources.fault import Fault, YamlRule, display, shorten
from reconciler.sources.ranges import expand

if TYPE_CHECKING:
    from reconciler.domain.fleet_spec import NodeEntry, PoolSpec
    from reconciler.sources.document import Document

Value = TypeVar("Value")


def nodes_of(pool: PoolSpec, file: str, document: Document, limit: int) -> tuple[list[Node], list[Fault]]:
    """The nodes of one pool, in the order written, at most `limit`, and a fault for each range that makes none."""
    nodes: list[Node] = []
    faults: list[Fault] = []
    for index, entry in enumerate(pool.nodes):
        path = ("nodes", index)
        try:
            names = expand(entry.name)
        except ValueError as error:
            place = document.position((*path, "name"))
            faults.append(Fault(YamlRule.TYPE, f"{display(path)}: {shorten(entry.name)} {error}", None, *place, path))
            continue
        if len(nodes) + len(names) > limit:
            place = document.position(path)
            message = f"{display(path)}: with {shorten(entry.name)} the fleet has more nodes than a fleet can have"
            faults.append(Fault(YamlRule.TOO_LARGE, message, "shorten the range", *place, path))
            break
        where = Where(file, path)
        nodes += [_node(name, pool, entry, where) for name in names]
    return nodes, faults


def _node(name: str, pool: PoolSpec, entry: NodeEntry, where: Where) -> Node:
    address = _first(entry.address, pool.address)
    return Node(
        name=name,
        pool=pool.pool,
        where=where,
        gpus=_first(entry.gpus, pool.gpus) or (),
        memory_gib=_first(entry.memory_gib, pool.memory_gib),
        cpu_cores=_first(entry.cpu_cores, pool.cpu_cores),
        address=address.replace("{node}", name) if address else None,
        labels={**(pool.labels or {}), **(entry.labels or {})},
        drain=bool(_first(entry.drain, pool.drain)),
        drain_gpus=_first(entry.drain_gpus, pool.drain_gpus) or (),
    )


def _first(own: Value | None, pools: Value | None) -> Value | None:
    return pools if own is None else own
