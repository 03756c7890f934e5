"""What a node remembers of slots whose replicas are gone: pure changes of its record, and what is told of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.observed import FailedLaunch, FailedStarts

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from reconciler.agent.clock import Moment
    from reconciler.agent.records import NodeRecord
    from reconciler.domain.assignment import RunEntry

REMEMBERED_SLOTS = 64
"""The most GPUs of a node, and so of what serves at once; the oldest go."""
TOLD_AFTER_LEAVING = timedelta(hours=1)
"""How long what has left is told although no launch failed here: its successor may fail on another node. Twice the
usual `ready_timeout`; telling it for ever would put 64 entries into every observation."""


def came_up(record: NodeRecord, entry: RunEntry) -> NodeRecord:
    """A launch reached ready: the node is well, and what failed in its slot under another retry is past."""
    good = [each for each in record.last_good if _slot(each) != _slot(entry)]
    failed = [each for each in record.failed_launches if _slot(each) != _slot(entry) or _still_counts(each, entry)]
    return record.model_copy(
        update={
            "last_good": (*good, entry)[-REMEMBERED_SLOTS:],
            "failed_launches": tuple(failed),
            "failed_starts": (),
            "failed_at": None,
        }
    )


def came_to_nothing(record: NodeRecord, entry: RunEntry, why: str, moment: Moment) -> NodeRecord:
    """A launch ended before it answered. The same replica failing again says no more of the node than once.

    What was ready on this node before is no failed launch: it is launched again after a while.
    """
    why = why or "no reason is known"
    launch = FailedLaunch(
        model=entry.model,
        ordinal=entry.ordinal,
        digest=entry.digest,
        retry=entry.retry,
        failure=why or "no reason known",
    )
    others = [each for each in record.failed_launches if (_slot(each), each.digest) != (_slot(entry), entry.digest)]
    starts = (*(each for each in record.failed_starts if each != entry.id), entry.id)
    launches = record.failed_launches if entry.digest in record.ready_digests else (*others, launch)
    return record.model_copy(
        update={
            "failed_launches": launches[-REMEMBERED_SLOTS:],
            "failed_starts": starts[-REMEMBERED_SLOTS:],
            "failed_at": moment.at,
        }
    )


def left(record: NodeRecord, replica_id: str, moment: Moment) -> NodeRecord:
    """A replica is gone; only of what served is kept when."""
    good = {each.id for each in record.last_good}
    if replica_id not in good:
        return record
    gone = {each: at for each, at in record.left_at.items() if each in good and _is_recent(at, moment)}
    return record.model_copy(update={"left_at": gone | {replica_id: moment.at}})


def told_good(record: NodeRecord, held: Collection[str], moment: Moment) -> tuple[RunEntry, ...]:
    """What served before, for slots in which a launch failed here or may soon fail elsewhere; `held` are running."""
    failed = {_slot(each) for each in record.failed_launches}
    recent = {each for each, at in record.left_at.items() if _is_recent(at, moment)}
    gone = (each for each in record.last_good if each.id not in held)
    return tuple(each for each in gone if each.id in recent or _slot(each) in failed)


def told_starts(record: NodeRecord, moment: Moment) -> FailedStarts | None:
    """How many starts in a row have failed; None where the last one came up."""
    if not record.failed_starts or record.failed_at is None:
        return None
    return FailedStarts(in_a_row=len(record.failed_starts), last_for=max(moment.at - record.failed_at, timedelta()))


def _is_recent(at: datetime, moment: Moment) -> bool:
    return abs(moment.at - at) < TOLD_AFTER_LEAVING  # a clock that was set back makes it later than now


def _slot(each: RunEntry | FailedLaunch) -> tuple[str, int]:
    return each.model, each.ordinal


def _still_counts(launch: FailedLaunch, entry: RunEntry) -> bool:
    """What was restored came up under the retry under which its successor failed: that goes on to count."""
    return launch.retry == entry.retry and launch.digest != entry.digest
