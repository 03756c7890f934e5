"""Records → what an observation says of them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.observed import ObservedReplica, ReplicaState

if TYPE_CHECKING:
    from reconciler.agent.clock import Moment
    from reconciler.agent.records import ReplicaRecord
    from reconciler.domain.declaration import DeclaredAdapter

REVISIONS_PER_START = 10**6
"""Each start of an agent counts revisions from its own range: no revision of before is ever taken for one of now.
A million transitions are eleven days of one a second; with starts counted from a date they still fit a double."""


@dataclass(slots=True)
class Gauges:
    """What is known of a replica for now only: it rides along in observations and is not remembered."""

    stage: str | None = None
    progress: str | None = None
    running: int | None = None
    waiting: int | None = None
    adapters: tuple[DeclaredAdapter, ...] | None = None
    """As its engine listed them; None until it has been asked."""
    adapter_failure: str | None = None
    idle_since: float | None = None
    """Since when every reading found nothing in flight, on the monotonic clock; None when not known, or busy."""


def observe_replica(record: ReplicaRecord, gauges: Gauges, moment: Moment, *, ever_ready: bool) -> ObservedReplica:
    """One replica as of this moment; only a ready one that was not withdrawn is routable."""
    waits = record.state in {ReplicaState.PENDING, ReplicaState.STARTING}
    has_process = record.identity is not None
    return ObservedReplica(
        entry=record.entry,
        state=record.state,
        state_for=timedelta(seconds=max(moment.seconds - record.state_seconds_at, 0.0)),
        since=record.since,
        stage=gauges.stage if waits else None,
        progress=gauges.progress if waits else None,
        routable=record.state is ReplicaState.READY,
        address=record.url if has_process else None,
        pid=record.identity.pid if record.identity is not None else None,
        running=gauges.running if has_process else None,
        waiting=gauges.waiting if has_process else None,
        idle_for=_idle(record, gauges, moment),
        failure=record.failure,
        ever_ready=ever_ready,
        failures_in_a_row=record.failures_in_a_row,
        load_seconds=record.load_seconds,
        adapters=gauges.adapters if has_process else None,
        adapter_failure=gauges.adapter_failure if has_process else None,
    )


def _idle(record: ReplicaRecord, gauges: Gauges, moment: Moment) -> timedelta | None:
    if record.state is not ReplicaState.READY or record.identity is None or gauges.idle_since is None:
        return None
    return timedelta(seconds=max(moment.seconds - gauges.idle_since, 0.0))
