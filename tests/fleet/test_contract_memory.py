"""What every agent remembers and launches again, real or simulated: failures, last good, idle times, attempts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
import pytest

from reconciler.domain.observed import FailedLaunch, ReplicaState
from tests.fleet.contract import MISSING, at_once
from tests.fleet.real_agent import NODE

if TYPE_CHECKING:
    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.observed import ObservedReplica, ReachableNode
    from tests.fleet.contract import Talk

pytestmark = pytest.mark.anyio

WHY = f"{MISSING} does not exist on this machine"


def failed_launch(entry: RunEntry) -> FailedLaunch:
    return FailedLaunch(model=entry.model, ordinal=entry.ordinal, digest=entry.digest, retry=entry.retry, failure=WHY)


def told(seen: ReachableNode, slot: RunEntry) -> tuple[list[RunEntry], list[FailedLaunch]]:
    """What served and what failed in the slot of this entry; others tell of other tests."""
    good = [each for each in seen.last_good if each.ordinal == slot.ordinal]
    return good, [each for each in seen.failed_launches if each.ordinal == slot.ordinal]


async def gone(talk: Talk, entry: RunEntry) -> None:
    await talk.send(at_once(entry))
    await talk.until(entry.id, None)


def counted(seen: ReachableNode) -> int:
    return 0 if seen.failed_starts is None else seen.failed_starts.in_a_row


async def test_what_served_is_told_when_it_has_left_and_once_a_launch_in_its_slot_has_failed(talk: Talk) -> None:
    await talk.claim()
    good, bad = talk.entry(), talk.entry(fails=True)
    await talk.send(good)
    await talk.ready(good.id)
    await gone(talk, good)
    seen = await talk.look()
    assert (told(seen, good), seen.failed_starts) == (([good], []), None), "its successor may fail on another node"
    await talk.send(bad)
    await talk.failed(bad.id)
    seen = await talk.look()
    assert told(seen, bad) == ([good], [failed_launch(bad)])
    assert counted(seen) == 1
    await gone(talk, bad)
    assert told(await talk.look(), bad) == ([good], [failed_launch(bad)]), "though its replica is gone"


async def test_a_launch_that_comes_up_ends_what_failed_before_it_under_another_retry(talk: Talk) -> None:
    await talk.claim()
    bad, worse = talk.entry(1, fails=True, retry="one"), talk.entry(1, fails=True, retry="one", context=512)
    for entry in (bad, worse):
        await talk.send(entry)
        await talk.failed(entry.id)
        await gone(talk, entry)
    assert told(await talk.look(), bad) == ([], [failed_launch(bad), failed_launch(worse)])
    restored = talk.entry(1, retry="one")
    await talk.send(restored)
    await talk.ready(restored.id)
    seen = await talk.look()
    assert told(seen, bad)[1] == [failed_launch(bad), failed_launch(worse)], "what is restored proves nothing of them"
    assert (told(seen, bad)[0], seen.failed_starts) == ([], None), "it runs, and the node is well"
    await gone(talk, restored)
    tried_again = talk.entry(1, retry="two")
    await talk.send(tried_again)
    await talk.ready(tried_again.id)
    assert told(await talk.look(), bad) == ([], [])


async def test_failed_starts_are_counted_once_a_replica_until_one_comes_up(talk: Talk) -> None:
    await talk.claim()
    first, second = talk.entry(2, fails=True), talk.entry(3, fails=True)
    others = counted(await talk.look())
    await talk.send(first)
    await talk.failed(first.id)
    again = first.model_copy(update={"attempt": 1, "retry": "two"})
    await talk.send(again)
    seen = await talk.look()
    with anyio.fail_after(30):
        while told(seen, again)[1] != [failed_launch(again)]:
            seen = await talk.fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=1))
    assert counted(seen) == others + 1, "the same replica says no more of the node"
    await talk.send(again, second)
    await talk.failed(second.id)
    assert counted(await talk.look()) == others + 2
    good = talk.entry(4)
    await talk.send(again, second, good)
    await talk.ready(good.id)
    assert counted(await talk.look()) == 0


async def test_all_that_is_remembered_outlives_the_agent(talk: Talk) -> None:
    await talk.claim()
    good, bad = talk.entry(5), talk.entry(5, fails=True)
    await talk.send(good)
    await talk.ready(good.id)
    await gone(talk, good)
    await talk.send(bad)
    await talk.failed(bad.id)
    before = await talk.look()
    await talk.side.kill_agent()
    await talk.side.start_agent()
    after = await talk.fleet.observe(NODE, since=before.revision, wait=timedelta(seconds=30))
    kept = ("last_good", "failed_launches", "load_times")
    assert [getattr(after, each) for each in kept] == [getattr(before, each) for each in kept]
    assert counted(after) == counted(before) == 1
    assert told(after, bad) == ([good], [failed_launch(bad)])


async def test_how_long_nothing_was_asked_is_told_of_what_is_ready(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry(6)
    await talk.send(entry)
    await talk.ready(entry.id)
    first = await idle(talk, timedelta())
    assert (first.running, first.waiting) == (0, 0)
    await idle(talk, timedelta(seconds=0.3))
    await talk.side.kill_agent()
    await talk.side.start_agent()
    again = await idle(talk, timedelta())
    assert again.state is ReplicaState.READY
    assert again.idle_for is not None
    assert again.idle_for <= again.state_for, "what nobody read while there was no agent does not count"
    await talk.send(at_once(entry, withdraw=0.5, drain=5))
    leaving = await talk.until(entry.id, ReplicaState.DRAINING)
    assert leaving is not None
    assert leaving.idle_for is None


async def idle(talk: Talk, at_least: timedelta) -> ObservedReplica:
    """Look at the only replica until it has been idle for so long."""
    seen = await talk.look()
    with anyio.fail_after(30):
        while (found := seen.replicas[0]).idle_for is None or found.idle_for < at_least:
            seen = await talk.fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=0.1))
    return found


async def test_a_higher_attempt_restarts_nothing_that_runs_on_one_node(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry(7)
    await talk.send(entry)
    first = await talk.ready(entry.id)
    await talk.send(entry.model_copy(update={"attempt": 1}))
    (after,) = (await talk.look()).replicas
    assert (after.entry.attempt, after.state, after.pid) == (1, ReplicaState.READY, first.pid)


async def test_a_higher_attempt_launches_a_part_that_runs_again(talk: Talk) -> None:
    """Another part of it has failed, and an engine never takes one of its ranks back."""
    await talk.claim()
    part = talk.part(8)
    await talk.send(part)
    first = await running(talk, None)
    await talk.send(part)
    assert (await talk.look()).replicas[0].pid == first.pid
    await talk.send(part.model_copy(update={"attempt": 1}))
    second = await running(talk, first.pid)
    assert second.entry.attempt == 1


async def running(talk: Talk, not_pid: int | None) -> ObservedReplica:
    """Look at the only replica until it has a process, another one than this."""
    seen = await talk.look()
    with anyio.fail_after(30):
        while (found := seen.replicas[0]).pid is None or found.pid == not_pid:
            seen = await talk.fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=1))
    return found


async def test_what_served_and_died_is_launched_again_after_ten_seconds(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry(10)
    await talk.send(entry)
    first = await talk.ready(entry.id)
    await talk.side.kill_engine(first)
    await talk.failed(entry.id)
    died_at = anyio.current_time()
    again = await talk.ready(entry.id)
    assert 9 <= anyio.current_time() - died_at <= 20
    assert again.pid != first.pid
    assert again.failures_in_a_row == 1, "it has not served for a minute yet"
