"""How TensorRT-LLM is started over several nodes: Open MPI's `mpirun` on the first, which asks the others' agents.

By itself `mpirun` reaches another node by ssh and starts there what no agent knows of. Here the agent of each further
node starts a process that waits (`agent/mpi_node.py`), and instead of ssh `mpirun` calls `agent/mpi_connect.py`, which
hands that process the command of Open MPI's daemon: so each node's ranks are children of its own agent's process, on
the GPUs and in the environment that its agent gave them. Options of Open MPI 4.1 and 5.0, both run (tests/e2e).
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING

from reconciler.engines.base import CannotLaunch, Port
from reconciler.engines.mpi_names import PARTS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Site

LAUNCHER = "mpirun"
RANKS = "trtllm-llmapi-launch"
"""TensorRT-LLM's own wrapper, beside `trtllm-serve`: the first rank serves, all compute."""

_ANYWHERE = "/tmp"  # noqa: S108  # nothing is written there: a directory that every node has
"""Ranks start in the same directory on every node, and the agent's own is not on the others."""

_CUTS = frozenset(" \t\n*?[")
"""Where the wrapper's shell cuts or expands a word: it does not quote the command that it runs."""


def launcher(declaration: Declaration, site: Site, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The words before the engine's command on this node; none for a replica of one node.

    Raises CannotLaunch where a word would not reach the ranks as it is.
    """
    if declaration.nodes == 1:
        return ()
    cut = next((word for word in (*site.command, *arguments) if _CUTS.intersection(word)), None)
    if cut is not None:
        raise CannotLaunch(f"{RANKS} cuts words at spaces and expands * ? [ in them, so it cannot be given {cut!r}")
    return _first(declaration, site) if site.leads else _further(site)


def environment(declaration: Declaration, site: Site) -> Mapping[str, str]:
    """What `mpirun` and `mpi_connect` read: where the parts wait. Agents may run as root, which it else refuses."""
    if declaration.nodes == 1 or not site.leads:
        return {}
    port = site.port_of(Port.RENDEZVOUS)
    parts = {part(rank): [address, port] for rank, address in enumerate(site.addresses) if rank}
    told = {"leader": site.leader, "weights": site.model_path, "parts": parts}
    return {
        PARTS_VARIABLE: json.dumps(told, sort_keys=True),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def part(rank: int) -> str:
    """What `mpirun` calls a further node: no name that a resolver knows, so that it never takes it for its own."""
    return f"part-{rank}"


def _first(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """As many ranks on each node as it has GPUs, the first node's first, bound to no core: each reads its own GPU."""
    here = max(1, declaration.gpus)
    hosts = ",".join(f"{name}:{here}" for name in ("localhost", *map(part, range(1, declaration.nodes))))
    connect = f"{site.interpreter} -m reconciler.agent.mpi_connect"
    if _CUTS.union(":").intersection(site.interpreter):
        raise CannotLaunch(f"{LAUNCHER} cuts the words that reach other nodes, and the agent's is {site.interpreter!r}")
    return (
        *(LAUNCHER, "--host", hosts, "-np", str(here * declaration.nodes)),
        *("--map-by", f"ppr:{here}:node", "--bind-to", "none", "-wdir", _ANYWHERE),
        *("--mca", "plm_rsh_agent", connect, "--mca", "plm_rsh_no_tree_spawn", "1"),
        # Else its daemons leave their session, and with it the reach of their agent.
        "--leave-session-attached",
        posixpath.join(posixpath.dirname(next(iter(site.command), "")), RANKS),
    )


def _further(site: Site) -> tuple[str, ...]:
    """The process that waits; the engine's command behind it is what will run in it, for whoever reads `ps`."""
    return (
        *(site.interpreter, "-m", "reconciler.agent.mpi_node"),
        *("--listen", site.host, "--door", str(site.port_of(Port.RENDEZVOUS))),
        *("--leader", site.leader, "--weights", site.model_path, "--"),
    )
