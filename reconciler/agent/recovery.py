"""The agent's start: what the journal and the process table say together. Pure.

A replica's entry stands in its own file and in the node's assignment; its process is in the table. Any one may be lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.agent import lifecycle
from reconciler.agent.journal import file_stem
from reconciler.agent.records import NodeRecord
from reconciler.domain.assignment import RunEntry
from reconciler.domain.observed import ForeignProcess, ReplicaState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.agent.clock import Moment
    from reconciler.agent.journal import Contents
    from reconciler.agent.processes import Running
    from reconciler.agent.records import ReplicaRecord

_UNSEEN = frozenset({ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.FAILED})
"""States in which a record that lacks the process that runs was written before its launch."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where the agent goes on from."""

    node: NodeRecord
    replicas: Mapping[str, ReplicaRecord]
    foreign: tuple[ForeignProcess, ...]
    """Engines of ours of which no entry is left anywhere: reported, never touched."""


def recover(
    contents: Contents, running: Mapping[str, Running], moment: Moment, *, boot_id: str, host: str
) -> Recovered:
    """Put the records, the assignment and the running engines (by log stem) together."""
    node = _next_start(contents, moment)
    replicas = dict(contents.replicas)
    for entry in node.assignment.entries if node.assignment is not None else ():
        if isinstance(entry, RunEntry) and entry.id not in replicas:
            replicas[entry.id] = lifecycle.begin(entry, moment, boot_id)
    known = {file_stem(replica_id): replica_id for replica_id in replicas}
    for stem, replica_id in known.items():
        if stem in running:
            replicas[replica_id] = _with_process(replicas[replica_id], running[stem], moment, host)
    foreign = tuple(
        ForeignProcess(pid=each.identity.pid, command=each.command)
        for stem, each in sorted(running.items())
        if stem not in known
    )
    return Recovered(node, replicas, foreign)


def _next_start(contents: Contents, moment: Moment) -> NodeRecord:
    """The node's record at this start.

    Without one, counters start from the wall clock where something may remember them: seconds since 1970 are above any
    count of starts or claims there ever was.
    """
    if contents.node is not None:
        return contents.node.model_copy(update={"agent_starts": contents.node.agent_starts + 1})
    seconds = int(moment.at.timestamp())
    lost = bool(contents.unreadable or contents.replicas)
    return NodeRecord(agent_starts=seconds, epoch=seconds if lost else 0)


def _with_process(record: ReplicaRecord, running: Running, moment: Moment, host: str) -> ReplicaRecord:
    """The record of a replica whose process was found; what it did not see of the launch is filled in."""
    if record.identity == running.identity:
        return record
    found = lifecycle.launched(record, running.identity)
    if record.state not in _UNSEEN or (record.state is ReplicaState.STARTING and record.url is not None):
        return found
    port = next(iter(running.ports), record.port)
    if port is None:
        return found  # it cannot be reached; the supervisor ends it and starts it again
    started = lifecycle.launching(found, port, f"http://{host}:{port}", moment)
    return started.model_copy(update={"launched_seconds_at": None})  # when it was launched is not known
