"""The life of one replica as pure steps: a record and a moment in, the next record out. Nothing here waits or acts.

pending → starting → ready ⇄ unhealthy, and from each of them → failed; a stop ends it from anywhere:
draining → stopping → gone (no record).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.agent.records import ReplicaRecord, StopRecord
from reconciler.domain.observed import ReplicaState

if TYPE_CHECKING:
    from reconciler.agent.clock import Moment
    from reconciler.agent.drivers.base import ProcessIdentity
    from reconciler.domain.assignment import RunEntry, StopEntry

FIRST_RETRY = timedelta(seconds=10)
"""Before the agent restarts what died: long enough for a reconciler or a person to see it and to act first."""

LONGEST_RETRY = timedelta(minutes=5)
"""An engine that keeps dying costs its node at most twelve starts an hour."""

SERVED_AFTER = timedelta(minutes=1)
"""A launch that was ready for this long served; its end counts as the first failure in a row again."""

SERVING = frozenset({ReplicaState.READY, ReplicaState.UNHEALTHY})
"""It reached ready in this launch, and may have requests in flight."""


_AGAIN = frozenset({ReplicaState.FAILED})
_AGAIN_TOGETHER = _AGAIN | SERVING | {ReplicaState.STARTING}
"""In which states a higher attempt launches it again: a replica of one node, and a part of one over several."""


def begin(entry: RunEntry, moment: Moment, boot_id: str) -> ReplicaRecord:
    """A replica that was just accepted."""
    return ReplicaRecord(
        entry=entry, state=ReplicaState.PENDING, since=moment.at, state_seconds_at=moment.seconds, boot_id=boot_id
    )


def reassigned(record: ReplicaRecord, entry: RunEntry, moment: Moment) -> ReplicaRecord:
    """Its entry was sent again: a higher attempt launches a failed replica again, at once; nothing else restarts it.

    A part of a replica over several nodes is launched again also while it runs: another part has failed, and an engine
    never takes one of its ranks back.
    """
    higher = entry.attempt > record.entry.attempt
    kept = entry if higher else entry.model_copy(update={"attempt": record.entry.attempt})
    record = record.model_copy(update={"entry": kept})
    states = _AGAIN_TOGETHER if is_part(record.entry) else _AGAIN
    return again(record, moment) if higher and record.state in states else record


def is_part(entry: RunEntry) -> bool:
    """Whether other nodes run parts of it too: then they are launched again together, whoever does it."""
    return len(entry.placement.shards) > 1


def again(record: ReplicaRecord, moment: Moment) -> ReplicaRecord:
    """A failed replica is to be launched again."""
    return _entered(record, ReplicaState.PENDING, moment, retry_seconds_at=None, failure=None)


def launching(
    record: ReplicaRecord, port: int, url: str, moment: Moment, *, cores: tuple[int, ...] = ()
) -> ReplicaRecord:
    """Its process is about to be started; recorded first, so that a process whose start was not seen is found."""
    return _entered(
        record,
        ReplicaState.STARTING,
        moment,
        port=port,
        url=url,
        cores=cores,
        adapters=record.entry.declaration.adapters,
        launched_seconds_at=moment.seconds,
        ready_seconds_at=None,
        failure=None,
    )


def launched(record: ReplicaRecord, identity: ProcessIdentity) -> ReplicaRecord:
    """Its process runs."""
    return record.model_copy(update={"identity": identity})


def became_ready(record: ReplicaRecord, moment: Moment) -> ReplicaRecord:
    """It answered a request of its own kind; how long it loaded is only known where its launch was seen."""
    launched_at = record.launched_seconds_at
    return _entered(
        record,
        ReplicaState.READY,
        moment,
        ready_seconds_at=moment.seconds,
        load_seconds=record.load_seconds if launched_at is None else round(moment.seconds - launched_at, 3),
    )


def served(record: ReplicaRecord, moment: Moment) -> ReplicaRecord:
    """It goes on serving; after a minute of it the failures before are forgiven."""
    ready_at = record.ready_seconds_at
    if ready_at is None or moment.seconds - ready_at < SERVED_AFTER.total_seconds():
        return record
    return record.model_copy(update={"failures_in_a_row": 0}) if record.failures_in_a_row else record


def unhealthy(record: ReplicaRecord, moment: Moment) -> ReplicaRecord:
    """It stopped answering; it is out of routing until it answers again."""
    return _entered(record, ReplicaState.UNHEALTHY, moment)


def recovered(record: ReplicaRecord, moment: Moment) -> ReplicaRecord:
    """It answers again."""
    return _entered(record, ReplicaState.READY, moment)


def ended(record: ReplicaRecord, why: str, moment: Moment, *, ever_ready: bool) -> ReplicaRecord:
    """Its launch ended unasked. What has been ready on this node is tried again after a while; what never was, is not.

    The process identity stays: the rest of its group holds the GPUs until it is gone.
    """
    failures = served(record, moment).failures_in_a_row + 1
    return _entered(
        record,
        ReplicaState.FAILED,
        moment,
        failure=why,
        failures_in_a_row=failures,
        retry_seconds_at=moment.seconds + retry_delay(failures).total_seconds() if ever_ready else None,
    )


def retry_delay(failures_in_a_row: int) -> timedelta:
    """10 s, doubling with each failure in a row, at most 5 min."""
    doublings = min(failures_in_a_row - 1, 16)  # beyond these the longest delay holds anyway
    return min(FIRST_RETRY * (1 << doublings), LONGEST_RETRY)


def process_gone(record: ReplicaRecord) -> ReplicaRecord:
    """Its whole process group is gone: its GPUs are free."""
    return record.model_copy(update={"identity": None})


def withdrawn(record: ReplicaRecord, entry: StopEntry, moment: Moment, *, adopted: bool = False) -> ReplicaRecord:
    """A stop was asked for. What serves is withdrawn from routing and drained; what does not is signalled at once.

    `adopted`: its process was taken over, so that it may serve although its record never said ready.
    Asked again, the newest delays hold and what has begun goes on.
    """
    if record.stop is not None:
        delays = {"withdraw_delay": entry.withdraw_delay, "drain_timeout": entry.drain_timeout}
        return record.model_copy(update={"stop": record.stop.model_copy(update=delays)})
    unproven = adopted and record.state is ReplicaState.STARTING
    drains = unproven or record.state in SERVING
    stop = StopRecord(
        withdraw_delay=entry.withdraw_delay,
        drain_timeout=entry.drain_timeout,
        withdrawn_seconds_at=moment.seconds if drains else None,
        unproven=unproven,
    )
    state = ReplicaState.DRAINING if drains else ReplicaState.STOPPING
    return _entered(record, state, moment, stop=stop, retry_seconds_at=None)


def drains(record: ReplicaRecord) -> ReplicaRecord:
    """An unproven one answered how many requests it has in flight: it is drained like one that was ready."""
    assert record.stop is not None, f"{record.id} was not asked to stop"  # noqa: S101  # only a stopping one comes here
    return record.model_copy(update={"stop": record.stop.model_copy(update={"unproven": False})})


def intends_signal(record: ReplicaRecord, moment: Moment) -> ReplicaRecord:
    """It is about to be signalled; recorded before the first signal."""
    assert record.stop is not None, f"{record.id} was not asked to stop"  # noqa: S101  # only a stopping one comes here
    stop = record.stop.model_copy(update={"signalled_seconds_at": moment.seconds, "unproven": False})
    return _entered(record, ReplicaState.STOPPING, moment, stop=stop)


def _entered(record: ReplicaRecord, state: ReplicaState, moment: Moment, **changes: object) -> ReplicaRecord:
    return record.model_copy(update={"state": state, "since": moment.at, "state_seconds_at": moment.seconds, **changes})
