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
from reconciler.domain.observed import LoadTime, ReplicaState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.agent.clock import Moment
    from reconciler.agent.drivers.base import ProcessIdentity
    from reconciler.agent.journal import Contents
    from reconciler.agent.processes import Running
    from reconciler.agent.records import ReplicaRecord


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where the agent goes on from."""

    node: NodeRecord
    replicas: Mapping[str, ReplicaRecord]
    strays: tuple[Running, ...]
    """Engines of ours of which no entry is left anywhere, and doubles: reported as foreign, never touched."""


def recover(
    contents: Contents, running: Mapping[str, Sequence[Running]], moment: Moment, *, boot_id: str, host: str
) -> Recovered:
    """Put the records, the assignment and the running engines (by log stem) together."""
    node = _next_start(contents, moment)
    replicas = dict(contents.replicas)
    for entry in node.assignment.entries if node.assignment is not None else ():
        if isinstance(entry, RunEntry) and entry.id not in replicas:
            replicas[entry.id] = lifecycle.begin(entry, moment, boot_id)
    strays = {stem: list(engines) for stem, engines in running.items()}
    for replica_id, record in replicas.items():
        engines = strays.get(file_stem(replica_id))
        if engines:
            kept = choose(engines, record.identity)
            engines.remove(kept)
            replicas[replica_id] = with_process(record, kept, moment, host)
    return Recovered(node, replicas, tuple(each for _, engines in sorted(strays.items()) for each in engines))


def choose(engines: Sequence[Running], known: ProcessIdentity | None) -> Running:
    """Which of several engines of one replica is the replica: one that listens, then the known one, then the oldest."""
    return min(engines, key=lambda each: (not each.listens, each.identity != known, each.identity.started_at))


def with_process(record: ReplicaRecord, running: Running, moment: Moment, host: str) -> ReplicaRecord:
    """The record of a replica whose process was found.

    Of a process that the record does not know it says starting, whatever it said before: it is asked before it counts.
    """
    if record.identity == running.identity:
        return record
    found = lifecycle.launched(record, running.identity)
    port = next(iter(running.ports), record.port)
    entry = record.entry
    if entry.port is not None and entry.addresses:
        host, port = entry.addresses[0], entry.port  # its leader's, wherever this part of it runs
    if port is None:
        return found  # it cannot be reached; the supervisor ends it and starts it again
    if record.identity is None and record.state is ReplicaState.STARTING and port == record.port:
        return found  # only the last line of its launch is missing
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if record.stop is not None:
        return found.model_copy(update={"port": port, "url": url})
    started = lifecycle.launching(found, port, url, moment)
    return started.model_copy(update={"launched_seconds_at": None})  # when it was launched is not known


def _next_start(contents: Contents, moment: Moment) -> NodeRecord:
    """The node's record at this start.

    Without one, counters start from the wall clock where something may remember them: seconds since 1970 are above any
    count of starts or claims there ever was. What was ever ready follows from the replicas.
    """
    if contents.node is not None:
        return contents.node.model_copy(update={"agent_starts": contents.node.agent_starts + 1})
    seconds = int(moment.at.timestamp())
    lost = bool(contents.unreadable or contents.replicas)
    ready = [record for record in contents.replicas.values() if record.ready_seconds_at is not None]
    times = {each.entry.model: each.load_seconds for each in ready if each.load_seconds is not None}
    return NodeRecord(
        agent_starts=seconds,
        epoch=seconds if lost else 0,
        ready_digests=tuple(sorted({record.entry.digest for record in ready})),
        load_times=tuple(LoadTime(model=model, seconds=times[model]) for model in sorted(times)),
    )
