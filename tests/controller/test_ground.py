"""How each form of address is reached, and what is said where there is no way."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.controller.ground import ground
from reconciler.domain.desired import Desired, Node, Where
from reconciler.domain.fleet_spec import FleetSpec
from reconciler.errors import NodeUnreachable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

FILE = "cluster/nodes/p.yaml"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def desired(address: str | None) -> Desired:
    node = Node("n1", "p", Where(FILE), address=address, memory_gib=4, cpu_cores=2)
    return Desired(FleetSpec(name="f"), nodes=(node,))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (None, f"n1 has no address in {FILE}"),
        ("http://10.0.0.1:7443", "plain http is for loopback only"),
        ("unix:/nowhere/agent.sock", "unix:/nowhere/agent.sock is no socket: no agent listens there"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9 refused the connection: nothing listens there"),
        ("https://127.0.0.1:9", "refused the connection: nothing listens there"),
    ],
)
async def test_a_node_that_cannot_be_reached_says_why(tmp_path: Path, address: str | None, said: str) -> None:
    here = ground(desired(address), tmp_path, may_start=False)
    with pytest.raises(NodeUnreachable, match=said):
        await here.fleet.observe("n1", since=None, wait=timedelta())
    await here.fleet.close()


async def test_the_local_node_is_looked_at_without_starting_anything(tmp_path: Path) -> None:
    here = ground(desired("local"), tmp_path / "state", may_start=False)
    seen = await here.fleet.observe("n1", since=None, wait=timedelta())
    assert (seen.name, seen.agent, seen.replicas) == ("n1", False, ())
    assert not (tmp_path / "state").exists()
    await here.fleet.close()
