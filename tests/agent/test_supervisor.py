"""The node as a whole: what survives an agent's end, a reboot and a full disk, and how revisions move."""

from __future__ import annotations

from datetime import timedelta
from signal import SIGTERM
from typing import TYPE_CHECKING

import anyio
import pytest

from reconciler.agent.journal import JournalUnwritable
from reconciler.domain.assignment import ClaimGranted, Refusal
from reconciler.domain.observed import ReachableNode, ReplicaState
from reconciler.engines.base import Answer
from reconciler.engines.signals import KILLED_FROM_OUTSIDE
from tests.agent.bench import HEALTH, LOAD, Bench
from tests.agent.disk import full_disk
from tests.agent.entries import assignment, claim_request, run_entry, stop_entry
from tests.agent.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

ENTRY = run_entry()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_an_empty_node_says_what_it_has(bench: Bench) -> None:
    node = bench.node()
    assert (node.name, node.agent, node.replicas, node.epoch) == ("here", True, (), 0)
    assert [(each.index, each.gpu_class, each.used_mib) for each in node.gpus] == [(0, "l4", None), (1, "l4", None)]


async def test_declared_gpus_keep_their_uuids(bench: Bench) -> None:
    before = [each.uuid for each in bench.node().gpus]
    bench.restart()
    assert [each.uuid for each in bench.node().gpus] == before
    assert len(set(before)) == 2
    assert all(each.startswith("GPU-") and len(each) == 40 for each in before)


async def test_an_agent_that_restarts_takes_over_what_runs(bench: Bench) -> None:
    await bench.serve(ENTRY)
    before = bench.one()
    bench.restart()
    assert bench.one().routable, "before anything was asked"
    await bench.settle()
    assert bench.one() == before
    await bench.through(30)
    assert len(bench.driver.processes) == 1
    assert bench.driver.newest.signals == []


async def test_an_agent_that_restarts_goes_on_with_a_start(bench: Bench) -> None:
    await bench.send(ENTRY)
    bench.restart()
    assert bench.one().state is ReplicaState.STARTING
    await bench.serve(ENTRY)
    assert (bench.one().state, bench.one().pid) == (ReplicaState.READY, 100)


async def test_an_engine_that_died_meanwhile_has_failed_and_is_restarted(bench: Bench) -> None:
    await bench.serve(ENTRY)
    bench.driver.newest.end(code=1)
    bench.restart()
    assert (bench.one().state, bench.one().failure) == (ReplicaState.FAILED, "ended while no agent was watching")
    await bench.settle()
    await bench.after(10)
    assert (bench.one().state, bench.one().pid) == (ReplicaState.READY, 101)


async def test_a_drain_goes_on_where_it_was(bench: Bench) -> None:
    await bench.serve(ENTRY)
    bench.prober.answers[LOAD.path] = Answer(200, b"1 0")
    await bench.send(stop_entry(ENTRY, withdraw=5, drain=60))
    await bench.after(40)
    bench.restart()
    await bench.settle()
    assert (bench.one().state, bench.one().routable) == (ReplicaState.DRAINING, False)
    await bench.after(24)
    assert bench.driver.newest.signals == []
    await bench.after(1)
    assert bench.driver.newest.signals == [SIGTERM], "65 s after the withdrawal, whoever watched"
    assert bench.node().replicas == ()


async def test_a_signalled_stop_goes_on_to_its_deadline(bench: Bench) -> None:
    await bench.serve(ENTRY)
    bench.driver.newest.ignores_term = True
    await bench.send(stop_entry(ENTRY, withdraw=0, drain=0))
    await bench.after(14)
    bench.restart()
    await bench.settle()
    assert bench.one().state is ReplicaState.STOPPING
    await bench.after(1)
    assert bench.node().replicas == ()


async def test_a_stop_that_ended_unwatched_is_gone(bench: Bench) -> None:
    await bench.serve(ENTRY)
    await bench.send(stop_entry(ENTRY))
    bench.driver.newest.end(code=0)
    bench.restart()
    await bench.settle()
    assert bench.node().replicas == ()


async def test_after_a_reboot_what_served_starts_again_without_a_reconciler(bench: Bench) -> None:
    await bench.serve(ENTRY)
    bench.driver.boot_id = "boot-2"
    bench.restart()
    assert bench.one().state is ReplicaState.PENDING
    await bench.settle()
    assert (bench.one().state, bench.one().pid) == (ReplicaState.READY, 101)


async def test_a_claim_and_its_epoch_outlive_the_agent(bench: Bench) -> None:
    epoch = bench.claim()
    bench.restart()
    assert bench.node().epoch == epoch
    await bench.send(ENTRY)
    assert isinstance(bench.supervisor.claim(claim_request("apply-2")), Refusal)


async def test_a_fenced_assignment_stays_fenced_after_a_restart(bench: Bench) -> None:
    await bench.send(ENTRY)
    bench.restart()
    assert isinstance(bench.supervisor.assign(assignment(ENTRY, epoch=bench.epoch, generation=0)), Refusal)
    again = bench.supervisor.assign(assignment(ENTRY, epoch=bench.epoch, generation=bench.generation))
    assert again == bench.supervisor.revision


async def test_losing_one_replicas_record_loses_nothing_that_was_accepted(bench: Bench) -> None:
    await bench.serve(ENTRY)
    bench.driver.newest.end(signal=9)
    bench.records()[0].write_text("{")
    bench.restart()
    await bench.settle()
    assert (bench.one().state, bench.one().ever_ready) == (ReplicaState.READY, True)
    assert bench.node().epoch == bench.epoch


# Revisions


async def test_an_accepted_assignment_moves_the_revision(bench: Bench) -> None:
    bench.claim()
    before = bench.supervisor.revision
    after = bench.supervisor.assign(assignment(ENTRY, epoch=bench.epoch))
    assert isinstance(after, int)
    assert after > before
    assert bench.node().revision == after
    assert bench.node().generation == 1


async def test_a_restarted_agent_never_repeats_a_revision(bench: Bench) -> None:
    seen = set()
    for _ in range(3):
        await bench.send(run_entry(attempt=bench.generation))
        seen.add(bench.supervisor.revision)
        bench.restart()
    assert len(seen) == 3
    assert bench.supervisor.revision > max(seen)


async def test_waiting_ends_with_the_next_transition(bench: Bench) -> None:
    await bench.serve(ENTRY)
    since = bench.supervisor.revision
    answered: list[ReachableNode] = []

    async def poll() -> None:
        await bench.supervisor.wait_for_change(since)
        answered.append(bench.node())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll)
        await anyio.wait_all_tasks_blocked()
        bench.prober.answers[LOAD.path] = Answer(200, b"1 0")
        await bench.after(5)
        assert answered == []
        bench.driver.newest.end(code=1)
        await bench.settle()
    assert answered[0].replicas[0].state is ReplicaState.FAILED


@pytest.mark.parametrize("since", [0, -1, 5, 10**15])
async def test_a_revision_that_is_not_known_is_answered_at_once(bench: Bench, since: int) -> None:
    with anyio.fail_after(1):
        await bench.supervisor.wait_for_change(since)


async def test_an_agent_that_ends_lets_everybody_go(bench: Bench) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.supervisor.wait_for_change, bench.supervisor.revision)
        await anyio.wait_all_tasks_blocked()
        bench.supervisor.close()


# A full disk


async def test_what_cannot_be_written_down_is_not_taken(bench: Bench) -> None:
    await bench.serve(ENTRY)
    with full_disk():
        with pytest.raises(JournalUnwritable):
            bench.supervisor.claim(claim_request())
        with pytest.raises(JournalUnwritable):
            bench.supervisor.assign(assignment(stop_entry(ENTRY), epoch=bench.epoch, generation=9))
        assert bench.node().epoch == bench.epoch
        assert bench.one().state is ReplicaState.READY
        await bench.after(5)
        assert bench.one().routable
    granted = bench.supervisor.claim(claim_request())
    assert isinstance(granted, ClaimGranted)
    assert granted.epoch == bench.epoch + 1


async def test_an_agent_starts_and_serves_with_a_full_disk(bench: Bench) -> None:
    await bench.serve(ENTRY)
    before = bench.supervisor.revision
    with full_disk():
        bench.restart()
        assert bench.one().state is ReplicaState.READY
        first = bench.supervisor.revision
    bench.restart()
    assert len({before, first, bench.supervisor.revision}) == 3


# Its task


async def test_running_it_takes_every_step_without_being_asked(bench: Bench) -> None:
    bench.clock.seconds = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.supervisor.run)
        await anyio.wait_all_tasks_blocked()
        bench.prober.answers |= {"/health": Answer(200), "/token": Answer(200), "/load": Answer(200, b"0 0")}
        bench.claim()
        bench.supervisor.assign(assignment(ENTRY, epoch=bench.epoch))
        await eventually(lambda: bench.one().state is ReplicaState.READY)
        bench.driver.newest.end(signal=9)
        await eventually(lambda: bench.one().state is ReplicaState.FAILED, within=1)
        assert bench.one().failure == KILLED_FROM_OUTSIDE
        bench.supervisor.assign(assignment(run_entry(attempt=1), epoch=bench.epoch, generation=2))
        await eventually(lambda: bench.one().state is ReplicaState.READY)
        bench.supervisor.assign(assignment(stop_entry(ENTRY, withdraw=0, drain=0), epoch=bench.epoch, generation=3))
        await eventually(lambda: bench.node().replicas == ())
        tasks.cancel_scope.cancel()
    assert bench.driver.newest.signals == [SIGTERM]


async def test_a_step_that_fails_unexpectedly_ends_neither_replica_nor_node(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.serve(ENTRY)
    bench.prober.answers[HEALTH.path] = Answer(418)  # the scripted engine cannot judge it
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.supervisor.run)
        await eventually(lambda: "a step of its supervision failed" in caplog.text)
        tasks.cancel_scope.cancel()
    assert bench.one().state is ReplicaState.READY
    assert bench.driver.newest.signals == []


async def test_cancelling_it_leaves_engines_running(bench: Bench) -> None:
    await bench.serve(ENTRY)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.supervisor.run)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert bench.driver.newest.signals == []
    assert bench.one().state_for == timedelta()
