"""Engines beside the memory of their GPUs, for those that do not see to that themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.engines.base import Site

BINDS = "numactl"


def bound(site: Site) -> tuple[str, ...]:
    """The words before an engine's command that keep it to one NUMA node, where all its GPUs are of that one.

    None where a node is not known, or GPUs of several are placed: one process then has no right side. Memory is
    preferred there and not bound: weights pass through host memory while they are loaded, and an engine that may take
    no other node's is killed, or thrashes, once those of a large model fill this one.
    """
    nodes = set(site.numa_nodes)
    if not site.gpus or len(site.numa_nodes) != len(site.gpus) or len(nodes) != 1:
        return ()
    return numactl(*nodes)


def numactl(node: int) -> tuple[str, ...]:
    """The command that runs what follows it on the cores of a NUMA node, with its memory first."""
    return (BINDS, f"--cpunodebind={node}", f"--preferred={node}")
