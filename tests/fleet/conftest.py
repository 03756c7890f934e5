"""Both fleets for the contract tests: a real agent over HTTP, and a simulated one in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.fleet.virtual_clock import VirtualLoop
from tests.fleet.contract import RealSide, SimulatedSide, real_config, start_real, stop_real, talking
from tests.tiny_gguf import write_tiny_gguf

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path
    from typing import Any

    from tests.fleet.contract import Side, Talk


@pytest.fixture(params=["http", "simulated"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend(kind: str) -> Any:
    return "asyncio" if kind == "http" else ("asyncio", {"loop_factory": VirtualLoop})


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory of one agent, which all contract tests of a file share."""
    state = tmp_path_factory.mktemp("a")
    write_tiny_gguf(state / "tiny.gguf")
    start_real(state)
    yield state
    stop_real(state)


@pytest.fixture
def side(kind: str, request: pytest.FixtureRequest) -> Side:
    if kind == "simulated":
        return SimulatedSide()
    state: Path = request.getfixturevalue("machine")
    return RealSide(start_real(state), real_config(state), state / "tiny.gguf")


@pytest.fixture
async def talk(side: Side, request: pytest.FixtureRequest) -> AsyncIterator[Talk]:
    async with talking(side, request.node.originalname) as found:
        yield found
