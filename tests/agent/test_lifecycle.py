"""The steps of one replica's life, and what an agent makes of a life it did not watch."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.agent import lifecycle
from reconciler.agent.adoption import adopted
from reconciler.agent.drivers.base import ProcessIdentity
from reconciler.agent.records import ReplicaRecord
from reconciler.domain.observed import ReplicaState
from tests.agent.entries import BOOT, moment, pending, run_entry, stop_entry

HERE = ProcessIdentity(pid=10, started_at=5.0, boot_id=BOOT)


def starting() -> ReplicaRecord:
    record = lifecycle.launching(pending(), 20_000, "http://127.0.0.1:20000", moment(1))
    return lifecycle.launched(record, HERE)


def ready() -> ReplicaRecord:
    return lifecycle.became_ready(starting(), moment(3.5))


def failed(*, ever_ready: bool = True) -> ReplicaRecord:
    return lifecycle.process_gone(lifecycle.ended(ready(), "killed by signal 9", moment(10), ever_ready=ever_ready))


def test_load_time_is_from_launch_to_ready() -> None:
    assert ready().load_seconds == 2.5


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (7, 300), (1_000, 300)]
)
def test_each_failure_in_a_row_doubles_the_pause_up_to_five_minutes(failures: int, seconds: int) -> None:
    assert lifecycle.retry_delay(failures) == timedelta(seconds=seconds)


def test_what_was_ready_is_retried_and_what_never_was_is_not() -> None:
    assert failed(ever_ready=True).retry_seconds_at == moment(20).seconds
    assert failed(ever_ready=False).retry_seconds_at is None


def test_failures_in_a_row_end_with_a_launch_that_served_for_a_minute() -> None:
    once = failed()
    assert once.failures_in_a_row == 1
    up = lifecycle.became_ready(lifecycle.again(once, moment(20)), moment(21))
    assert lifecycle.ended(up, "again", moment(80), ever_ready=True).failures_in_a_row == 2
    assert lifecycle.ended(up, "again", moment(81), ever_ready=True).failures_in_a_row == 1
    assert lifecycle.served(up, moment(80)).failures_in_a_row == 1
    assert lifecycle.served(up, moment(81)).failures_in_a_row == 0


def test_a_launch_that_never_answered_is_not_forgiven_because_the_one_before_it_served() -> None:
    """Else an engine that served for a day and can start no more is launched every ten seconds for ever."""
    record, failures = ready(), []
    for second in (1_000, 1_030, 1_090, 1_200):
        record = lifecycle.ended(record, "exited with code 1", moment(second), ever_ready=True)
        failures.append(record.failures_in_a_row)
        again = lifecycle.again(record, moment(second + 10))
        record = lifecycle.launching(again, 20_000, "http://127.0.0.1:20000", moment(second + 10))
    assert failures == [1, 2, 3, 4]


def test_the_process_is_kept_in_mind_until_its_group_is_gone() -> None:
    record = lifecycle.ended(ready(), "exited with code 1", moment(10), ever_ready=True)
    assert record.identity == HERE
    assert lifecycle.process_gone(record).identity is None


def test_a_higher_attempt_launches_a_failed_replica_at_once() -> None:
    record = lifecycle.reassigned(failed(), run_entry(attempt=1, retry="r-1"), moment(11))
    assert record.state is ReplicaState.PENDING
    assert record.retry_seconds_at is None
    assert record.entry.retry == "r-1"


def test_the_same_attempt_changes_nothing_and_a_lower_one_is_no_step_back() -> None:
    record = lifecycle.reassigned(failed(), run_entry(attempt=2), moment(11))
    record = lifecycle.ended(record, "again", moment(12), ever_ready=True)
    assert lifecycle.reassigned(record, run_entry(attempt=2), moment(13)) == record
    lower = lifecycle.reassigned(record, run_entry(attempt=1), moment(13))
    assert lower.state is ReplicaState.FAILED
    assert lower.entry.attempt == 2


def test_a_higher_attempt_leaves_a_serving_replica_alone() -> None:
    record = lifecycle.reassigned(ready(), run_entry(attempt=5, ready_timeout=5), moment(11))
    assert record.state is ReplicaState.READY
    assert record.identity == HERE
    assert record.entry.attempt == 5
    assert record.entry.ready_timeout == timedelta(seconds=5)


def test_a_stop_withdraws_what_serves_and_skips_the_drain_of_what_does_not() -> None:
    stop = stop_entry(run_entry())
    draining = lifecycle.withdrawn(ready(), stop, moment(50))
    assert draining.state is ReplicaState.DRAINING
    assert draining.stop is not None
    assert draining.stop.withdrawn_seconds_at == moment(50).seconds
    stopping = lifecycle.withdrawn(starting(), stop, moment(50))
    assert stopping.state is ReplicaState.STOPPING
    assert stopping.stop is not None
    assert stopping.stop.withdrawn_seconds_at is None


def test_a_stop_asked_for_again_goes_on_with_the_newest_delays() -> None:
    first = lifecycle.withdrawn(ready(), stop_entry(run_entry()), moment(50))
    assert lifecycle.withdrawn(first, stop_entry(run_entry()), moment(55)) == first
    hurried = lifecycle.withdrawn(first, stop_entry(run_entry(), drain=1), moment(55))
    assert hurried.stop is not None
    assert hurried.stop.drain_timeout == timedelta(seconds=1)
    assert hurried.stop.withdrawn_seconds_at == moment(50).seconds


# Adoption


def take_over(
    record: ReplicaRecord, *, alive: bool, boot_id: str = BOOT, ever_ready: bool = True
) -> ReplicaRecord | None:
    return adopted(record, moment(100), boot_id=boot_id, alive=alive, why=lambda: "ended", ever_ready=ever_ready)


@pytest.mark.parametrize(
    "record", [starting(), ready(), lifecycle.unhealthy(ready(), moment(9))], ids=lambda each: each.state
)
def test_a_living_engine_is_taken_over_as_it_is(record: ReplicaRecord) -> None:
    assert take_over(record, alive=True) == record


def test_an_engine_that_ended_unwatched_has_failed() -> None:
    record = take_over(ready(), alive=False)
    assert record is not None
    assert record.state is ReplicaState.FAILED
    assert record.failure == "ended"
    assert record.failures_in_a_row == 1
    assert record.retry_seconds_at == moment(110).seconds


def test_a_launch_that_was_written_down_and_never_made_is_made() -> None:
    record = take_over(lifecycle.launching(pending(), 1, "http://127.0.0.1:1", moment(1)), alive=False)
    assert record is not None
    assert record.state is ReplicaState.PENDING


def test_a_stop_goes_on_and_what_is_gone_is_forgotten() -> None:
    draining = lifecycle.withdrawn(ready(), stop_entry(run_entry()), moment(50))
    assert take_over(draining, alive=True) == draining
    assert take_over(draining, alive=False) == draining, "the rest of its group is still to be seen to"
    assert take_over(lifecycle.process_gone(draining), alive=False) is None
    assert take_over(draining, alive=False, boot_id="boot-2") is None


@pytest.mark.parametrize("record", [pending(), starting(), ready(), failed()], ids=lambda each: each.state)
def test_after_a_reboot_what_was_accepted_starts_again(record: ReplicaRecord) -> None:
    after = take_over(record, alive=False, boot_id="boot-2")
    assert after is not None
    assert after.state is ReplicaState.PENDING
    assert after.identity is None
    assert after.boot_id == "boot-2"
    assert after.failures_in_a_row == record.failures_in_a_row


def test_after_a_reboot_what_never_came_up_is_not_tried_again() -> None:
    after = take_over(failed(ever_ready=False), alive=False, boot_id="boot-2", ever_ready=False)
    assert after is not None
    assert after.state is ReplicaState.FAILED
    assert after.state_seconds_at == moment(10).seconds, "how long it has failed is told by the wall clock"
