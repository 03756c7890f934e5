"""A replica that serves: how it dies, hangs, comes back, and is stopped."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

import pytest

from reconciler.domain.observed import ReplicaState
from reconciler.engines import trtllm
from reconciler.engines.base import Answer
from reconciler.engines.signals import KILLED_FROM_OUTSIDE
from tests.agent.bench import HEALTH, LOAD, OK, SILENT, Bench
from tests.agent.disk import full_disk
from tests.agent.entries import run_entry, stop_entry

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

ENTRY = run_entry()
BUSY, IDLE = Answer(200, b"2 1"), Answer(200, b"0 0")


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    """With one ready replica."""
    made = Bench(tmp_path)
    await made.serve(ENTRY)
    return made


async def test_requests_in_flight_are_a_gauge_that_moves_no_revision(bench: Bench) -> None:
    before = bench.supervisor.revision
    bench.prober.answers[LOAD.path] = BUSY
    await bench.after(5)
    assert (bench.one().running, bench.one().waiting) == (2, 1)
    assert bench.supervisor.revision == before


async def test_one_that_keeps_silent_is_asked_once_a_look(bench: Bench) -> None:
    """Three misses take 25 s: no second question may wait for its time-out behind the first."""
    bench.prober.answers.clear()
    bench.prober.asked.clear()
    await bench.after(5)
    assert [path for _, path, _ in bench.prober.asked] == [HEALTH.path]
    assert (bench.one().running, bench.one().waiting) == (None, None)


async def test_time_alone_moves_no_revision(bench: Bench) -> None:
    before = bench.supervisor.revision
    await bench.through(600)
    assert bench.supervisor.revision == before
    assert bench.one().state_for.total_seconds() == 600


@pytest.mark.parametrize(
    ("code", "signal", "words"),
    [(0, None, "exited with code 0"), (1, None, "exited with code 1"), (None, 9, KILLED_FROM_OUTSIDE)],
)
async def test_a_process_that_ends_by_itself_has_failed(
    bench: Bench, code: int | None, signal: int | None, words: str
) -> None:
    before = bench.supervisor.revision
    bench.driver.newest.end(code=code, signal=signal)
    await bench.settle()
    seen = bench.one()
    assert (seen.state, seen.failure, seen.routable) == (ReplicaState.FAILED, words, False)
    assert (seen.pid, seen.address, seen.failures_in_a_row) == (None, None, 1)
    assert bench.supervisor.revision > before


async def test_its_log_tells_why_it_ended(bench: Bench) -> None:
    bench.write_log(ENTRY.id, "noise\nfailure: CUDA out of memory\n")
    bench.driver.newest.end(code=1)
    await bench.settle()
    assert bench.one().failure == "CUDA out of memory"


async def test_what_it_left_behind_is_killed_before_anything_starts_again(bench: Bench) -> None:
    bench.driver.newest.has_child = True
    bench.driver.newest.end(code=0)
    await bench.settle()
    assert not bench.driver.group_alive(bench.driver.newest.identity)


async def test_it_is_restarted_in_place_after_ten_seconds_with_the_same_id(bench: Bench) -> None:
    bench.driver.newest.end(signal=9)
    await bench.settle()
    await bench.after(9)
    assert bench.one().state is ReplicaState.FAILED, "a reconciler or a person sees it first"
    await bench.after(1)
    seen = bench.one()
    assert (seen.state, seen.id, seen.pid) == (ReplicaState.READY, ENTRY.id, 101)
    assert seen.failure is None


async def test_a_higher_attempt_does_not_wait_for_the_pause(bench: Bench) -> None:
    bench.driver.newest.end(signal=9)
    await bench.settle()
    await bench.send(run_entry(attempt=1))
    assert bench.one().state is ReplicaState.READY
    assert bench.one().id == ENTRY.id


async def test_an_engine_that_keeps_dying_is_started_ever_less_often(bench: Bench) -> None:
    for pause in (10, 20, 40, 80, 160, 300, 300):
        bench.driver.newest.end(code=1)
        await bench.settle()
        starts = len(bench.driver.processes)
        await bench.after(pause - 1)
        assert len(bench.driver.processes) == starts
        await bench.after(1)
        assert len(bench.driver.processes) == starts + 1
    assert bench.one().failures_in_a_row == 7
    await bench.through(60)
    assert bench.one().failures_in_a_row == 0, "it served for a minute"
    assert bench.record().failures_in_a_row == 0


async def test_three_misses_take_it_out_of_routing_and_an_answer_brings_it_back(bench: Bench) -> None:
    bench.prober.answers[HEALTH.path] = SILENT
    await bench.through(10)
    assert bench.one().routable
    await bench.after(5)
    assert (bench.one().state, bench.one().routable) == (ReplicaState.UNHEALTHY, False)
    bench.prober.answers[HEALTH.path] = OK
    await bench.after(5)
    assert (bench.one().state, bench.one().routable, bench.one().pid) == (ReplicaState.READY, True, 100)


async def test_one_answer_in_between_forgives_the_misses(bench: Bench) -> None:
    for answer in (SILENT, SILENT, OK, SILENT, SILENT):
        bench.prober.answers[HEALTH.path] = answer
        await bench.after(5)
    assert bench.one().state is ReplicaState.READY


async def test_an_engine_that_hangs_for_a_minute_is_taken_for_dead(bench: Bench) -> None:
    bench.prober.answers[HEALTH.path] = SILENT
    bench.driver.newest.ignores_term = True
    await bench.through(70)
    assert bench.one().state is ReplicaState.UNHEALTHY
    await bench.through(10)
    assert bench.one().failure == "stopped answering for 60 s and was killed"
    assert bench.driver.processes[0].signals == [SIGKILL]
    bench.prober.answers[HEALTH.path] = OK
    await bench.after(10)
    assert (bench.one().state, bench.one().pid) == (ReplicaState.READY, 101)


# Stopping


async def test_a_stop_withdraws_first(bench: Bench) -> None:
    before = bench.supervisor.revision
    await bench.send(stop_entry(ENTRY, withdraw=5))
    seen = bench.one()
    assert (seen.state, seen.routable) == (ReplicaState.DRAINING, False)
    assert seen.entry == ENTRY, "what it runs is still said"
    assert bench.supervisor.revision > before
    await bench.after(4.5)
    assert bench.driver.newest.signals == []


async def test_then_requests_in_flight_end_before_any_signal(bench: Bench) -> None:
    bench.prober.answers[LOAD.path] = BUSY
    await bench.send(stop_entry(ENTRY, withdraw=5, drain=120))
    await bench.through(100)
    assert bench.driver.newest.signals == []
    assert (bench.one().running, bench.one().waiting) == (2, 1)
    bench.prober.answers[LOAD.path] = IDLE
    await bench.after(0.5)
    assert bench.driver.newest.signals == [], "one idle reading may fall between two requests"
    await bench.after(0.5)
    await bench.after(0.5)
    assert bench.driver.newest.signals == [SIGTERM]
    assert bench.node().replicas == ()
    assert bench.records() == []
    assert bench.logs.path(ENTRY.id).exists()


async def test_one_long_step_that_looks_idle_does_not_end_the_drain(bench: Bench) -> None:
    """TensorRT-LLM tells of a step when it is over: four seconds of a long prompt look like nothing in flight."""
    bench.engine.stop = trtllm.STOP
    bench.prober.answers[LOAD.path] = IDLE
    await bench.send(stop_entry(ENTRY, withdraw=0, drain=120))
    await bench.through(4, every=0.5)
    assert bench.driver.newest.signals == []
    bench.prober.answers[LOAD.path] = Answer(200, b"1 0")
    await bench.through(0.5, every=0.5)
    bench.prober.answers[LOAD.path] = IDLE
    await bench.through(4.5, every=0.5)
    assert bench.driver.newest.signals == [], "it was seen at work since"
    await bench.through(1.5, every=0.5)
    assert bench.driver.newest.signals == [SIGTERM]


async def test_idle_minutes_before_the_stop_do_not_end_the_drain(bench: Bench) -> None:
    await bench.through(60)
    bench.prober.answers[LOAD.path] = BUSY
    await bench.send(stop_entry(ENTRY, withdraw=0, drain=120))
    await bench.after(60)
    assert bench.driver.newest.signals == []


async def test_the_drain_ends_at_its_deadline(bench: Bench) -> None:
    bench.prober.answers[LOAD.path] = BUSY
    await bench.send(stop_entry(ENTRY, withdraw=5, drain=10))
    await bench.after(14)
    assert bench.one().state is ReplicaState.DRAINING
    await bench.after(1)
    assert bench.driver.newest.signals == [SIGTERM]


async def test_a_load_that_is_not_known_is_not_idle(bench: Bench) -> None:
    bench.prober.answers[LOAD.path] = SILENT
    await bench.send(stop_entry(ENTRY, withdraw=0, drain=10))
    await bench.after(9)
    assert bench.one().state is ReplicaState.DRAINING
    assert bench.one().running is None


async def test_the_intent_is_on_disk_before_the_first_signal(bench: Bench) -> None:
    bench.driver.newest.ignores_term = True
    await bench.send(stop_entry(ENTRY, withdraw=0, drain=0))
    stop = bench.record().stop
    assert stop is not None
    assert stop.signalled_seconds_at is not None
    assert bench.record().state is ReplicaState.STOPPING


async def test_it_is_signalled_twice_and_then_killed_with_its_group(bench: Bench) -> None:
    bench.driver.newest.ignores_term = True
    bench.driver.newest.has_child = True
    await bench.send(stop_entry(ENTRY, withdraw=0, drain=0))
    assert bench.driver.newest.signals == [SIGTERM]
    await bench.after(5)
    assert bench.driver.newest.signals == [SIGTERM, SIGTERM]
    await bench.after(9.5)
    assert bench.one().state is ReplicaState.STOPPING
    await bench.after(0.5)
    assert bench.driver.newest.signals == [SIGTERM, SIGTERM, SIGKILL]
    assert not bench.driver.group_alive(bench.driver.newest.identity)
    assert bench.node().replicas == ()


async def test_children_that_outlive_their_leader_are_killed(bench: Bench) -> None:
    bench.driver.newest.has_child = True
    await bench.send(stop_entry(ENTRY, withdraw=0, drain=0))
    assert not bench.driver.group_alive(bench.driver.newest.identity)
    assert bench.node().replicas == ()


async def test_what_is_not_ready_yet_is_signalled_at_once(bench: Bench) -> None:
    other = run_entry(1)
    bench.prober.answers[HEALTH.path] = SILENT
    await bench.send(ENTRY, other)
    await bench.send(ENTRY, stop_entry(other, withdraw=60, drain=60))
    assert bench.driver.newest.signals == [SIGTERM]
    assert bench.one().id == ENTRY.id


async def test_a_failed_replica_is_gone_at_once(bench: Bench) -> None:
    bench.driver.newest.end(code=1)
    await bench.settle()
    await bench.send(stop_entry(ENTRY))
    assert bench.node().replicas == ()
    assert bench.records() == []


async def test_dying_while_it_drains_is_being_stopped(bench: Bench) -> None:
    await bench.send(stop_entry(ENTRY))
    bench.driver.newest.end(code=1)
    await bench.settle()
    assert bench.node().replicas == ()


async def test_its_id_may_run_again_once_it_is_gone(bench: Bench) -> None:
    await bench.send(stop_entry(ENTRY, withdraw=0, drain=0))
    await bench.send(ENTRY)
    assert (bench.one().state, bench.one().pid) == (ReplicaState.READY, 101)
    assert bench.one().ever_ready


async def test_a_full_disk_keeps_what_runs_and_stops_what_should_stop(bench: Bench) -> None:
    with full_disk():
        await bench.after(5)
        assert bench.one().state is ReplicaState.READY
        bench.driver.newest.end(signal=9)
        await bench.settle()
        assert bench.one().state is ReplicaState.FAILED
    await bench.after(10)
    assert bench.record().state is ReplicaState.READY, "the next change is written again"
