"""What every `Fleet` does, real or simulated: claims, fencing, every refusal of design section 8, long polls, stops."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
import pytest

from reconciler.domain.observed import ReplicaState
from reconciler.engines.signals import KILLED_FROM_OUTSIDE
from reconciler.errors import AssignmentRefused, ClaimRefused, NodeUnreachable
from tests.agent.entries import run_entry
from tests.fleet.contract import AT_ONCE, MISSING, at_once
from tests.fleet.real_agent import NODE

if TYPE_CHECKING:
    from tests.fleet.contract import Talk

pytestmark = pytest.mark.anyio


async def refused(talk: Talk) -> bool:
    """Whether the connection is refused, once those of before are known to be gone: on a busy machine several."""
    for _ in range(5):
        with pytest.raises(NodeUnreachable) as caught:
            await talk.look()
        if caught.value.refused:
            return True
    return False


# Claims.


async def test_epochs_grow_and_an_old_one_is_fenced_off(talk: Talk) -> None:
    first = await talk.claim()
    second = await talk.claim()
    assert second > first
    await talk.send()
    old = talk.assignment(generation=99).model_copy(update={"epoch": first})
    with pytest.raises(AssignmentRefused, match="no live claim with epoch"):
        await talk.fleet.assign(NODE, old)


async def test_a_claim_is_renewed_under_its_epoch_and_with_no_other(talk: Talk) -> None:
    epoch = await talk.claim()
    renewed = await talk.fleet.claim(NODE, talk.request(epoch=epoch))
    assert renewed.epoch == epoch
    with pytest.raises(ClaimRefused, match="not held any more"):
        await talk.fleet.claim(NODE, talk.request(epoch=epoch + 1))


async def test_a_live_holder_is_named_and_its_release_lets_the_next_in(talk: Talk) -> None:
    epoch = await talk.claim()
    other = talk.request(f"{talk.name}-2")
    with pytest.raises(ClaimRefused, match="held by `apply` of ada on desk"):
        await talk.fleet.claim(NODE, other)
    await talk.fleet.release(NODE, talk.name, epoch - 1)  # not the newest: nothing happens
    with pytest.raises(ClaimRefused):
        await talk.fleet.claim(NODE, other)
    await talk.fleet.release(NODE, talk.name, epoch)
    assert (await talk.fleet.claim(NODE, other)).epoch > epoch


async def test_a_silent_holder_loses_its_claim_and_may_change_nothing_any_more(talk: Talk) -> None:
    await talk.claim(ttl=0.4)
    other = talk.request(f"{talk.name}-2")
    seen = await talk.look()
    with pytest.raises(ClaimRefused):
        await talk.fleet.claim(NODE, other)
    await talk.fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=0.5))  # while nothing happens
    with pytest.raises(AssignmentRefused, match="nobody holds one"):
        await talk.send()
    assert (await talk.fleet.claim(NODE, other)).epoch > talk.epoch


# Assignments.


async def test_the_same_assignment_twice_is_taken_and_an_older_or_another_is_not(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry(fails=True)
    same = talk.assignment(entry, generation=5)
    await talk.fleet.assign(NODE, same)
    await talk.fleet.assign(NODE, same)
    for refused in (talk.assignment(entry, generation=4), talk.assignment(entry, talk.entry(1), generation=5)):
        with pytest.raises(AssignmentRefused, match="is not above what was taken last"):
            await talk.fleet.assign(NODE, refused)


async def test_what_is_left_out_is_named_and_stops_nothing(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry(fails=True)
    await talk.send(entry)
    with pytest.raises(AssignmentRefused, match=f"leaves out {entry.id}"):
        await talk.send(talk.entry(1, fails=True))
    assert [each.id for each in (await talk.look()).replicas] == [entry.id]


async def test_what_another_fleet_runs_need_not_be_named(talk: Talk) -> None:
    await talk.claim()
    theirs = talk.entry(fails=True).model_copy(update={"fleet": "theirs"})
    await talk.fleet.assign(NODE, talk.assignment(theirs).model_copy(update={"fleet": "theirs"}))
    ours = talk.entry(1, fails=True)
    await talk.send(ours)
    assert {each.id for each in (await talk.look()).replicas} == {theirs.id, ours.id}


async def test_an_assignment_for_another_node_is_refused(talk: Talk) -> None:
    await talk.claim()
    with pytest.raises(AssignmentRefused, match="is for somewhere-else"):
        await talk.fleet.assign(NODE, talk.assignment(node="somewhere-else"))


async def test_one_id_stands_for_one_body_and_one_gpu_for_one_replica(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry(fails=True)
    await talk.send(entry)
    other_body = entry.model_copy(update={"declaration": talk.entry(fails=True, context=512).declaration})
    on_a_gpu, beside = (run_entry(ordinal, gpus=(0,), node=NODE) for ordinal in (1, 2))
    for entries, said in (
        ((other_body,), "held with another body"),
        ((entry, entry), "named twice"),
        ((entry, on_a_gpu, beside), f"placed on GPU-0, which {on_a_gpu.id} holds"),
    ):
        with pytest.raises(AssignmentRefused, match=said):
            await talk.send(*entries)


# Observations.


async def test_an_observation_is_answered_at_once_or_when_something_changes(talk: Talk) -> None:
    await talk.claim()
    seen = await talk.look()
    assert (seen.name, seen.agent, seen.replicas, seen.epoch) == (NODE, True, (), talk.epoch)
    with anyio.move_on_after(0.3) as waited:
        await talk.fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=30))
    assert waited.cancelled_caught, "nothing had changed"
    again = await talk.fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=0.1))
    assert again.revision == seen.revision, "the time was over"
    with anyio.fail_after(5):
        await talk.fleet.observe(NODE, since=seen.revision + 1_000, wait=timedelta(seconds=30))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk.send, talk.entry(fails=True))
            woken = await talk.fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=30))
    assert woken.revision > seen.revision


async def test_a_node_outside_the_inventory_is_unreachable(talk: Talk) -> None:
    with pytest.raises(NodeUnreachable, match="not in the inventory"):
        await talk.fleet.observe("somewhere-else", since=None, wait=AT_ONCE)


async def test_no_agent_is_a_refused_connection_and_its_return_keeps_everything(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry()
    await talk.send(entry)
    before = await talk.ready(entry.id)
    seen = await talk.look()
    await talk.side.kill_agent()
    assert await refused(talk)
    await talk.side.start_agent()
    after = await talk.fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=30))
    assert after.revision > seen.revision, "no revision of before is one of now"
    assert (after.epoch, after.generation, after.boot_id) == (seen.epoch, seen.generation, seen.boot_id)
    (replica,) = after.replicas
    assert (replica.id, replica.state, replica.pid) == (before.id, ReplicaState.READY, before.pid)
    await talk.send(entry)  # under the claim of before


# Replicas.


async def test_a_replica_starts_serves_and_is_stopped_by_the_agent_alone(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry()
    await talk.send(entry)
    replica = await talk.ready(entry.id)
    assert replica.routable
    assert replica.address is not None
    assert replica.pid is not None
    assert replica.ever_ready
    assert replica.load_seconds is not None
    assert [each.model for each in (await talk.look()).load_times] == [entry.model]
    await talk.send(at_once(entry, withdraw=0.5, drain=5))
    leaving = await talk.until(entry.id, ReplicaState.DRAINING)
    assert leaving is not None
    assert not leaving.routable
    with pytest.raises(AssignmentRefused, match="is being stopped"):
        await talk.send(entry)
    await talk.fleet.release(NODE, talk.name, talk.epoch)
    await talk.until(entry.id, None)


async def test_what_was_ready_is_launched_again_by_a_higher_attempt(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry()
    await talk.send(entry)
    first = await talk.ready(entry.id)
    await talk.side.kill_engine(first)
    failed = await talk.failed(entry.id)
    assert (failed.ever_ready, failed.failures_in_a_row, failed.routable) == (True, 1, False)
    assert failed.failure == KILLED_FROM_OUTSIDE
    await talk.send(entry)  # the same again launches nothing
    assert (await talk.look()).replicas[0].state is ReplicaState.FAILED
    await talk.send(talk.entry(attempt=1))
    again = await talk.ready(entry.id)
    assert again.pid != first.pid


async def test_what_never_came_up_says_why_and_stays(talk: Talk) -> None:
    await talk.claim()
    entry = talk.entry(fails=True)
    await talk.send(entry)
    failed = await talk.failed(entry.id)
    assert failed.failure == f"{MISSING} does not exist on this machine"
    assert (failed.ever_ready, failed.pid) == (False, None)
    await talk.send(at_once(entry))
    await talk.until(entry.id, None)
