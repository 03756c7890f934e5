"""The real fleet client against the real agent over a Unix socket: claims, fencing, whole assignments, long polls."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
import pytest

from reconciler.controller.holder import this_process
from reconciler.domain.assignment import Assignment, ClaimRequest
from reconciler.errors import AssignmentRefused, ClaimRefused, NodeUnreachable
from reconciler.fleet.http import Endpoint, HttpFleet
from reconciler.fleet.observer import observing
from tests.fleet.real_agent import NODE, RealAgent, running_agent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

AT_ONCE = timedelta()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RealAgent]:
    with running_agent(tmp_path) as running:
        yield running


@pytest.fixture
def fleet(agent: RealAgent) -> HttpFleet:
    return HttpFleet({NODE: Endpoint(socket=agent.socket)})


def claim(command: str = "apply", *, epoch: int | None = None, started: float | None = None) -> ClaimRequest:
    holder = this_process(command)
    if started is not None:
        holder = holder.model_copy(update={"started_at": started, "id": f"other-{started}"})
    return ClaimRequest(fleet="test", holder=holder, ttl_seconds=30, epoch=epoch)


def assignment(epoch: int, generation: int) -> Assignment:
    return Assignment(fleet="test", node=NODE, holder=this_process("apply").id, epoch=epoch, generation=generation)


async def test_epochs_grow_and_an_old_one_is_fenced_off(fleet: HttpFleet) -> None:
    first = await fleet.claim(NODE, claim())
    second = await fleet.claim(NODE, claim())
    assert second.epoch > first.epoch
    await fleet.assign(NODE, assignment(second.epoch, 1))
    with pytest.raises(AssignmentRefused):
        await fleet.assign(NODE, assignment(first.epoch, 9))
    await fleet.close()


async def test_the_same_assignment_twice_is_taken_and_an_older_one_refused(fleet: HttpFleet) -> None:
    granted = await fleet.claim(NODE, claim())
    await fleet.assign(NODE, assignment(granted.epoch, 2))
    await fleet.assign(NODE, assignment(granted.epoch, 2))
    with pytest.raises(AssignmentRefused):
        await fleet.assign(NODE, assignment(granted.epoch, 1))
    await fleet.close()


async def test_a_live_holder_is_named_and_a_dead_one_on_this_machine_is_replaced_at_once(fleet: HttpFleet) -> None:
    dead = claim(started=1.0)  # our pid, but a start time that no process of this boot has
    await fleet.claim(NODE, dead)
    await fleet.claim(NODE, claim())
    with pytest.raises(ClaimRefused, match=str(dead.holder.pid)):
        await fleet.claim(NODE, dead)
    await fleet.close()


async def test_a_released_claim_can_be_taken(fleet: HttpFleet) -> None:
    granted = await fleet.claim(NODE, claim())
    await fleet.release(NODE, this_process("apply").id, granted.epoch)
    await fleet.claim(NODE, claim(started=1.0))
    await fleet.close()


async def test_an_observation_is_answered_at_once_then_held_until_something_changes(fleet: HttpFleet) -> None:
    seen = await fleet.observe(NODE, since=None, wait=timedelta(seconds=30))
    assert (seen.name, seen.agent, seen.replicas) == (NODE, True, ())
    with anyio.move_on_after(0.3) as waited:
        await fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=30))
    assert waited.cancelled_caught, "nothing had changed"
    other = seen.revision + 1_000
    await fleet.observe(NODE, since=other, wait=timedelta(seconds=30))  # an unknown revision is answered at once
    await fleet.close()


async def test_silence_is_unreachable_and_keeps_what_was_last_said(agent: RealAgent, fleet: HttpFleet) -> None:
    async with observing(fleet, [NODE], timedelta(seconds=1)) as observer:
        heard = await observer.hear_all(timedelta(seconds=10))
        assert [node.name for node in heard.reachable] == [NODE]
        agent.kill()
        while not observer.latest().unreachable:
            assert await observer.changed(timedelta(seconds=20)), "never called unreachable"
        (lost,) = observer.latest().unreachable
        assert lost.last is not None
        assert lost.last.name == NODE
    await fleet.close()


async def test_no_agent_is_a_refused_connection(tmp_path: Path) -> None:
    fleet = HttpFleet({NODE: Endpoint(socket=str(tmp_path / "none.sock"))})
    with pytest.raises(NodeUnreachable) as caught:
        await fleet.observe(NODE, since=None, wait=AT_ONCE)
    assert caught.value.refused
    with pytest.raises(NodeUnreachable, match="no address"):
        await HttpFleet({NODE: Endpoint(problem="no address")}).observe(NODE, since=None, wait=AT_ONCE)
    await fleet.close()
