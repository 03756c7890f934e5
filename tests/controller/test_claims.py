"""Who may change nodes: enough claims, held nowhere by another, given up at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.controller.claims import Claims, claiming
from reconciler.controller.holder import this_process
from reconciler.domain.assignment import ClaimRequest
from reconciler.errors import ClaimRefused
from reconciler.fleet.http import Endpoint, HttpFleet
from tests.fleet.real_agent import NODE, RealAgent, running_agent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

DEAD = "dead"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RealAgent]:
    with running_agent(tmp_path) as running:
        yield running


@pytest.fixture
def fleet(agent: RealAgent, tmp_path: Path) -> HttpFleet:
    return HttpFleet({NODE: Endpoint(socket=agent.socket), DEAD: Endpoint(socket=str(tmp_path / "none.sock"))})


@pytest.mark.parametrize(
    ("held", "nodes", "enough"),
    [
        (0, 1, False),
        (1, 1, True),
        (0, 2, False),
        (1, 2, True),
        (1, 3, False),
        (2, 3, True),
        (2, 4, False),
        (3, 4, True),
    ],
)
async def test_more_than_half_of_the_inventory_or_one_of_two(held: int, nodes: int, *, enough: bool) -> None:
    claims = Claims(HttpFleet({}), "test", this_process("apply"))
    claims.epoch_by_node = {f"n{index}": 1 for index in range(held)}
    assert claims.enough(nodes) is enough


async def test_silent_nodes_are_left_out_and_claims_are_given_up_at_the_end(fleet: HttpFleet) -> None:
    claims = Claims(fleet, "test", this_process("apply"))
    async with claiming(claims):
        await claims.take([NODE, DEAD])
        assert set(claims.epoch_by_node) == {NODE}
    assert claims.epoch_by_node == {}
    await fleet.claim(NODE, other())  # a live stranger may have it now
    await fleet.close()


async def test_another_live_holder_refuses_the_whole_and_nothing_stays_claimed(fleet: HttpFleet) -> None:
    holder = this_process("run")
    await fleet.claim(NODE, ClaimRequest(fleet="test", holder=holder, ttl_seconds=30))
    claims = Claims(fleet, "test", holder.model_copy(update={"id": "second"}))
    with pytest.raises(ClaimRefused, match=str(holder.pid)):
        await claims.take([NODE, DEAD])
    assert claims.epoch_by_node == {}
    await fleet.close()


async def test_a_forgotten_claim_is_taken_again_with_a_higher_epoch(fleet: HttpFleet) -> None:
    claims = Claims(fleet, "test", this_process("apply"))
    await claims.take([NODE])
    first = claims.epoch_by_node[NODE]
    claims.forget(NODE)
    await claims.take([NODE])
    assert claims.epoch_by_node[NODE] > first
    await fleet.close()


def other() -> ClaimRequest:
    holder = this_process("run").model_copy(update={"id": "stranger"})
    return ClaimRequest(fleet="test", holder=holder, ttl_seconds=30)
