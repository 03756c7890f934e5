"""What Open MPI and the programs around it say of an end, for engines that start under it (`mpi`).

Open MPI's words are those of 4.1.4 and 5.0.11, each brought about with both, and so are those of `agent/mpi_connect.py`
and `agent/mpi_node.py`, which begin with `reconciler: `. All of it stands in the log of the first node's replica, whose
`mpirun` also passes on what every rank writes; a further node's log has only what `mpi_node` says.
"""

from __future__ import annotations

import re

from reconciler.engines.failures import by_signal, reasons
from reconciler.engines.progress import Progress, Stage

_MPIRUN = r"(?:mpirun|prterun)"
_RANK = r"\[.*?,(\d+)\]"
"""`[[25255,1],2]` up to 4, `[prterun-host-4232@1,2]` from 5 on: the number behind the job's."""

_LINES = r".*\n(?:.*\n){0,12}?"
"""The rest of a line and what else a message says before its names: 8 lines in the longest."""

OURS = reasons(
    (
        (
            r"^reconciler: the part on (\S+) port (\d+) (cannot join|is lost): (.+)$",
            "its part on {0} (port {1}) {2}: {3}",
        ),
        (r"^reconciler: error: (.+)$", "{0}"),
    )
)
"""Before all others: what engines say of such an end are its consequences."""

NOT_STARTED = reasons(
    (
        (
            r"could not[ \n]access[ \n](?:or execute )?an executable:\n\n?[ \t]*Executable: (.+)\n[ \t]*Node: (\S+)",
            "{0} cannot be run on {1}: it is not there, or not executable",
        ),
        (
            rf"^{_MPIRUN} was unable to find the specified executable file{_LINES} *Node: +(\S+)\n *Executable: (.+)$",
            "{1} cannot be run on {0}: it is not on PATH there",
        ),
        (
            r"change to the specified working directory:\n\n?[ \t]*Working directory: (.+)\n[ \t]*Node: (\S+)",
            "its ranks cannot start on {1}: there is no directory {0}",
        ),
        (
            r'parameter "plm_(?:rsh|ssh)_agent" was set to a path[ \n]that could not be found:\n\n?[ \t]*\S+: (.+)$',
            "mpirun cannot reach the other nodes: there is no program {0}",
        ),
        (
            r"All nodes .* for this job are already filled|are not enough slots available|more processes than the ppr",
            "mpirun counts fewer places than ranks: two nodes are one to it, or its environment (SLURM_…) names others",
        ),
        (
            rf"{_MPIRUN} has detected an attempt to run as root",
            "mpirun does not start as root: OMPI_ALLOW_RUN_AS_ROOT is not in its environment",
        ),
        (
            rf"^[A-Z]+ has lost communication with a remote daemon\.{_LINES}[ \t]*Remote daemon: {_RANK} on node",
            "mpirun lost part-{0}: the node is gone, or what ran there for it was killed",
        ),
        (
            r"ORTE was unable to reliably start one or more daemons|A daemon failed to report back after being spawned",
            "the part on another node ended before it could compute, or the connection to it was lost",
        ),
    )
)
"""Nothing of the engine runs, or no longer: behind what it said itself."""

RANK_KILLED = by_signal(
    rf"{_MPIRUN} noticed that process rank (\d+) with PID \d+ on node \S+ exited on[ \n]signal SIGNAL\b",
    "rank {0}",
    crashed=True,
)

RANK_ENDED = (
    *by_signal(
        rf"{_MPIRUN} noticed that process rank (\d+) with PID \d+ on node \S+ exited on[ \n]signal SIGNAL\b",
        "rank {0}",
        crashed=False,
    ),
    *reasons(
        (
            (
                rf"exited with non-zero status,[ \n]thus causing\b{_LINES} *Process name: {_RANK}\n *Exit code: +(\d+)",
                "rank {0} ended with code {1}, and the others with it",
            ),
            (
                r"^MPI_ABORT was invoked on rank (\d+) in communicator .*\n(?:[ \t]*Proc: .*\n)?[ \t]*\S.*? (\d+)\.?$",
                "rank {0} gave up (MPI_ABORT, code {1}), and the others ended with it",
            ),
            (
                rf"MPI_ABORT was invoked|{_MPIRUN} noticed that process",
                "one of its processes ended and took the others with it",
            ),
            (r"^reconciler: the first node has hung up$", "the first node's part has ended, or its node is lost"),
            (
                r"^reconciler: (\S+) ended with (\d+)$",
                "{0}, which runs its ranks, ended with code {1}; the first node may say more",
            ),
        )
    ),
)
"""Last: a rank that fails says why itself."""

_WAITS = re.compile(r"^reconciler: (?:waiting for \S+ on |the part on .* does not wait yet\b)")
_RUNS = re.compile(r"^reconciler: runs \S+ for the first node$")


def read_progress(line: str) -> Progress | None:
    """A part that waits for the first node, or the first node for a part; then Open MPI's daemon."""
    if _WAITS.search(line):
        return Progress(Stage.MEETING)
    return Progress(Stage.STARTING) if _RUNS.search(line) else None
