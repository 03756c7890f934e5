"""What a node remembers of slots whose replicas are gone: pure changes of its record, and what is told of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.observed import FailedLaunch, FailedStarts

if TYPE_CHECKING:
    from collections.abc import Collection

    from reconciler.agent.clock import Moment
    from reconciler.agent.records import NodeRecord
    from reconciler.domain.assignment import RunEntry

REMEMBERED_SLOTS = 64
"""The most GPUs of a node, and so of what serves at once; the oldest go."""


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


def told_good(record: NodeRecord, held: Collection[str]) -> tuple[RunEntry, ...]:
    """What served before, for slots in which a launch has failed: nobody needs the rest. `held` are ids that run."""
    failed = {_slot(each) for each in record.failed_launches}
    return tuple(each for each in record.last_good if _slot(each) in failed and each.id not in held)


def told_starts(record: NodeRecord, moment: Moment) -> FailedStarts | None:
    """How many starts in a row have failed; None where the last one came up."""
    if not record.failed_starts or record.failed_at is None:
        return None
    return FailedStarts(in_a_row=len(record.failed_starts), last_for=max(moment.at - record.failed_at, timedelta()))


def _slot(each: RunEntry | FailedLaunch) -> tuple[str, int]:
    return each.model, each.ordinal


def _still_counts(launch: FailedLaunch, entry: RunEntry) -> bool:
    """What was restored came up under the retry under which its successor failed: that goes on to count."""
    return launch.retry == entry.retry and launch.digest != entry.digest
