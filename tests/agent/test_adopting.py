"""Taking over what runs: nothing that serves looks as if it served nobody, and nothing runs twice."""

from __future__ import annotations

from dataclasses import replace
from signal import SIGTERM
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from reconciler.agent.journal import file_stem
from reconciler.agent.processes import Running
from reconciler.domain.observed import ReplicaState
from reconciler.engines.base import Answer
from tests.agent.bench import HEALTH, LOAD, SILENT, TOKEN, WRONG, Bench
from tests.agent.disk import full_disk
from tests.agent.entries import run_entry, stop_entry

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

ENTRY = run_entry()
BUSY = Answer(200, b"1 0")


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    """With one ready replica, found in the process table too."""
    made = Bench(tmp_path)
    await made.serve(ENTRY)
    made.running = {file_stem(ENTRY.id): (running(made),)}
    return made


def running(bench: Bench, **fields: object) -> Running:
    """The newest process as the process table shows it."""
    spec = bench.driver.newest.spec
    found = Running(bench.driver.newest.identity, " ".join(spec.argv), (int(spec.argv[5]),))
    return replace(found, **fields)  # type: ignore[arg-type]  # fields of it


def lose(bench: Bench) -> None:
    for path in (bench.config.directory / "node.json", *bench.records()):
        path.unlink()


# Whose readiness is not on disk


async def test_an_engine_that_serves_is_ready_before_anything_is_answered(bench: Bench) -> None:
    bench.records()[0].unlink()
    bench.restart()
    await bench.supervisor.greet()
    seen = bench.one()
    assert (seen.state, seen.routable, seen.ever_ready, seen.pid) == (ReplicaState.READY, True, True, 100)
    assert bench.record().state is ReplicaState.READY
    assert seen.load_seconds is None, "nobody saw it load"


async def test_an_engine_whose_readiness_was_not_saved_is_ready_and_its_load_time_is_not_guessed(bench: Bench) -> None:
    record = bench.record()
    starting = record.model_copy(update={"state": ReplicaState.STARTING, "ready_seconds_at": None})
    bench.records()[0].write_text(starting.model_dump_json())
    bench.clock.seconds += 86_400
    bench.restart()
    await bench.supervisor.greet()
    assert bench.one().state is ReplicaState.READY
    assert bench.one().load_seconds == record.load_seconds
    assert [each.seconds for each in bench.node().load_times] == [record.load_seconds]


@pytest.mark.parametrize("answer", [SILENT, WRONG])
async def test_one_that_does_not_answer_as_it_should_is_not_ready(bench: Bench, answer: Answer) -> None:
    bench.records()[0].unlink()
    bench.prober.answers[TOKEN.path] = answer
    bench.restart()
    await bench.supervisor.greet()
    assert (bench.one().state, bench.one().routable) == (ReplicaState.STARTING, False)
    assert bench.driver.newest.signals == []


async def test_an_unhealthy_one_that_answers_again_is_ready(bench: Bench) -> None:
    bench.prober.answers[HEALTH.path] = SILENT
    await bench.through(15)
    assert bench.one().state is ReplicaState.UNHEALTHY
    bench.prober.answers[HEALTH.path] = Answer(200)
    bench.restart()
    await bench.supervisor.greet()
    assert bench.one().routable


async def test_an_engine_that_hangs_holds_nobody_up(bench: Bench) -> None:
    bench.records()[0].unlink()
    bench.prober.hangs = True
    bench.restart()
    with anyio.fail_after(5):
        await bench.supervisor.greet()
    assert bench.one().state is ReplicaState.STARTING


async def test_one_that_was_taken_over_and_serves_is_drained(bench: Bench) -> None:
    """Its readiness probe waits behind a long request; its load page answers."""
    bench.records()[0].unlink()
    bench.prober.answers |= {TOKEN.path: SILENT, LOAD.path: BUSY}
    bench.restart()
    await bench.supervisor.greet()
    await bench.send(stop_entry(ENTRY, withdraw=5, drain=60))
    assert bench.one().state is ReplicaState.DRAINING
    await bench.through(60)
    assert bench.driver.newest.signals == []
    bench.restart()
    await bench.after(5)
    assert bench.driver.newest.signals == [SIGTERM], "65 s after the withdrawal"


async def test_one_that_was_taken_over_and_answers_nothing_is_stopped_at_once(bench: Bench) -> None:
    bench.records()[0].unlink()
    bench.prober.answers.clear()
    bench.restart()
    await bench.supervisor.greet()
    await bench.send(stop_entry(ENTRY, withdraw=5, drain=60))
    assert bench.driver.newest.signals == [SIGTERM]


# Without a record


@pytest.mark.parametrize("known", [True, False])
async def test_an_engine_that_runs_without_a_record_is_taken_over_and_not_started_again(
    bench: Bench, *, known: bool
) -> None:
    """Whether it was there when the agent began, or an agent beside it started it."""
    lose(bench)
    table, bench.running = bench.running, bench.running if known else {}
    bench.restart()
    assert bench.node().replicas == ()
    assert [each.pid for each in bench.node().foreign] == ([100] if known else [])
    bench.running, bench.epoch = table, 0
    await bench.send(ENTRY)
    seen = bench.one()
    assert (seen.state, seen.pid, seen.routable) == (ReplicaState.READY, 100, True)
    assert seen.address == f"http://127.0.0.1:{bench.driver.newest.spec.argv[5]}"
    assert len(bench.driver.processes) == 1
    assert bench.node().foreign == ()


async def test_a_double_is_shown_as_foreign_until_it_is_gone(bench: Bench) -> None:
    double = await bench.driver.start(bench.driver.newest.spec)
    bench.running = {file_stem(ENTRY.id): (*bench.running[file_stem(ENTRY.id)], running(bench, identity=double))}
    bench.restart()
    assert (bench.one().pid, [each.pid for each in bench.node().foreign]) == (100, [101])
    bench.driver.newest.end(code=0)
    assert bench.node().foreign == ()


@pytest.mark.parametrize("told", [{"gpus": ("GPU-0", "GPU-1")}, {"gpu_numbers": (0, 1)}], ids=["uuids", "numbers"])
async def test_nothing_starts_on_gpus_that_an_engine_without_a_record_holds(
    tmp_path: Path, told: dict[str, Any]
) -> None:
    bench = Bench(tmp_path)
    await bench.serve(run_entry(gpus=(0, 1)))
    bench.running = {"big-0@00000000": (running(bench, **told),)}
    lose(bench)
    bench.restart()
    bench.epoch = 0
    await bench.send(run_entry(gpus=(1,)))
    assert (bench.one().state, bench.one().pid) == (ReplicaState.PENDING, None)
    assert "waiting for pid 100, an engine without a record" in (bench.one().stage or "")
    bench.running = {}
    await bench.after(1)
    assert bench.one().pid == 101


# What is not on disk


async def test_a_record_that_could_not_be_saved_is_saved_later(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with full_disk():
        bench.driver.newest.end(code=1)
        await bench.settle()
        bench.supervisor.tend()
        bench.supervisor.tend()
        assert bench.record().state is ReplicaState.READY
    assert caplog.text.count("that is not on disk") == 1, "said once"
    bench.supervisor.tend()
    assert bench.record().state is ReplicaState.FAILED


async def test_what_was_ready_while_the_disk_was_full_is_remembered_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.send(ENTRY)
    with full_disk():
        bench.prober.answers |= {HEALTH.path: Answer(200), TOKEN.path: Answer(200)}
        await bench.after(2)
    assert bench.one().state is ReplicaState.READY
    bench.supervisor.tend()
    assert bench.record().state is ReplicaState.READY
    bench.restart()
    assert (bench.one().state, bench.one().ever_ready) == (ReplicaState.READY, True)


async def test_files_that_somebody_removed_are_written_again(bench: Bench) -> None:
    lose(bench)
    bench.supervisor.tend()
    bench.restart()
    assert (bench.one().state, bench.one().ever_ready) == (ReplicaState.READY, True)
    assert bench.node().epoch == bench.epoch


@pytest.mark.parametrize("lost", ["node.json", "replicas"])
async def test_losing_one_half_of_the_journal_heals_at_the_next_start(bench: Bench, lost: str) -> None:
    for path in [bench.config.directory / "node.json"] if lost == "node.json" else bench.records():
        path.unlink()
    bench.restart()
    await bench.supervisor.greet()
    assert (bench.one().state, bench.one().ever_ready, bench.one().pid) == (ReplicaState.READY, True, 100)
    assert (bench.config.directory / "node.json").exists()
    assert bench.record().state is ReplicaState.READY
