"""What a node remembers of slots whose replicas are gone, and what it tells of that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reconciler.agent.clock import Moment
from reconciler.agent.records import NodeRecord
from reconciler.agent.remembered import (
    REMEMBERED_SLOTS,
    TOLD_AFTER_LEAVING,
    came_to_nothing,
    came_up,
    left,
    told_good,
    told_starts,
)
from tests.builders import a_model, an_entry

EMPTY = NodeRecord(agent_starts=1)
BEFORE, AFTER = (an_entry(a_model(context=context), 0, "n1", [0], retry="c1") for context in (1024, 2048))
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(seconds: float) -> Moment:
    return Moment(at=AT + timedelta(seconds=seconds), seconds=seconds)


def test_what_served_before_is_told_once_its_successor_failed() -> None:
    record = came_up(EMPTY, BEFORE)
    assert told_good(record, {BEFORE.id}, at(1)) == ()
    assert told_good(record, (), at(1)) == (), "nothing failed, so nobody needs it"
    record = came_to_nothing(record, AFTER, "out of memory", at(1))
    assert told_good(record, (), at(1)) == (BEFORE,)
    assert told_good(record, {BEFORE.id}, at(1)) == (), "it runs"


def test_what_left_is_told_for_an_hour_since_its_successor_may_fail_on_another_node() -> None:
    record = left(came_up(EMPTY, BEFORE), BEFORE.id, at(0))
    hour = TOLD_AFTER_LEAVING.total_seconds()
    assert told_good(record, (), at(hour - 1)) == (BEFORE,)
    assert told_good(record, {BEFORE.id}, at(1)) == (), "it is back"
    assert told_good(record, (), at(hour)) == ()
    assert told_good(record, (), at(-2 * hour)) == (), "the clock was set back"
    failed = came_to_nothing(record, AFTER, "out of memory", at(hour))
    assert told_good(failed, (), at(2 * hour)) == (BEFORE,), "its successor failed here"


def test_what_never_served_leaves_nothing_and_what_is_long_gone_is_forgotten() -> None:
    assert left(EMPTY, BEFORE.id, at(0)) is EMPTY
    other = an_entry(a_model(), 1, "n1", [1])
    record = left(came_up(came_up(EMPTY, BEFORE), other), BEFORE.id, at(0))
    record = left(record, other.id, at(TOLD_AFTER_LEAVING.total_seconds()))
    assert set(record.left_at) == {other.id}


def test_a_failure_counts_while_what_was_restored_comes_up_and_is_past_with_another_retry() -> None:
    record = came_to_nothing(came_up(EMPTY, BEFORE), AFTER, "out of memory", at(1))
    (failed,) = record.failed_launches
    assert (failed.digest, failed.retry, failed.failure) == (AFTER.digest, "c1", "out of memory")
    assert came_up(record, BEFORE).failed_launches == (failed,)
    assert came_up(record, AFTER).failed_launches == ()
    assert came_up(record, BEFORE.model_copy(update={"retry": "c2"})).failed_launches == ()


def test_the_same_launch_failing_again_is_remembered_once_as_it_was_last() -> None:
    record = came_to_nothing(EMPTY, AFTER, "out of memory", at(1))
    record = came_to_nothing(record, AFTER.model_copy(update={"retry": "c2"}), "", at(2))
    (failed,) = record.failed_launches
    assert (failed.retry, failed.failure) == ("c2", "no reason is known")


def test_starts_in_a_row_are_of_different_replicas_and_end_with_one_that_comes_up() -> None:
    assert told_starts(EMPTY, at(0)) is None
    record = EMPTY
    for ordinal in (0, 1, 1, 2):
        record = came_to_nothing(record, an_entry(a_model(), ordinal, "n1", [ordinal]), "no", at(ordinal))
    told = told_starts(record, at(62))
    assert told is not None
    assert (told.in_a_row, told.last_for) == (3, timedelta(seconds=60))
    assert told_starts(came_up(record, BEFORE), at(63)) is None


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    told = told_starts(came_to_nothing(EMPTY, AFTER, "no", at(100)), at(0))
    assert told is not None
    assert told.last_for == timedelta()


def test_only_so_much_is_remembered() -> None:
    record = EMPTY
    for ordinal in range(REMEMBERED_SLOTS + 10):
        entry = an_entry(a_model(), ordinal, "n1", [0])
        record = came_to_nothing(came_up(record, entry), an_entry(a_model(context=9), ordinal, "n1"), "no", at(1))
    assert len(record.last_good) == REMEMBERED_SLOTS
    assert len(record.failed_launches) == REMEMBERED_SLOTS
    assert record.last_good[-1].ordinal == REMEMBERED_SLOTS + 9


def test_what_was_ready_here_once_is_no_failed_launch_and_still_a_failed_start() -> None:
    before = EMPTY.model_copy(update={"ready_digests": (AFTER.digest,)})
    record = came_to_nothing(before, AFTER, "out of memory", at(1))
    assert record.failed_launches == ()
    assert told_starts(record, at(1)) is not None
