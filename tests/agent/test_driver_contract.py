"""The fake driver and the real one keep one contract: what the supervisor's tests build on is true of processes."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

import anyio
import pytest

from reconciler.agent.drivers.base import Driver, Exit, ProcessIdentity, ProcessSpec, StartFailed
from reconciler.agent.drivers.process import ProcessDriver
from tests.agent.fake_driver import EXITS_3, IGNORES_TERM, LASTS, LEAVES_A_CHILD, MISSING, FakeDriver
from tests.agent.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


class Programs:
    """Starts programs by one driver, and ends what is left of them."""

    def __init__(self, driver: Driver, directory: Path) -> None:
        self.driver = driver
        self._directory = directory
        self.log = directory / "log"
        self._started: list[ProcessIdentity] = []

    async def start(self, argv: tuple[str, ...]) -> ProcessIdentity:
        spec = ProcessSpec(argv=argv, env={"PATH": "/usr/bin:/bin"}, log_path=self.log, cwd=self._directory)
        self._started.append(await self.driver.start(spec))
        return self._started[-1]

    async def said_started(self) -> None:
        await eventually(lambda: "started" in self.log.read_text("utf-8"))

    async def clear(self) -> None:
        for identity in self._started:
            self.driver.signal_group(identity, SIGKILL)
            await self.driver.wait(identity)


@pytest.fixture(params=[FakeDriver, ProcessDriver])
async def programs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Programs]:
    started = Programs(request.param(), tmp_path)
    yield started
    await started.clear()


async def ended(programs: Programs, identity: ProcessIdentity) -> Exit:
    with anyio.fail_after(10):
        return await programs.driver.wait(identity)


async def test_a_started_program_is_alive_with_its_group(programs: Programs) -> None:
    identity = await programs.start(LASTS)
    assert programs.driver.alive(identity)
    assert programs.driver.group_alive(identity)


async def test_two_starts_are_two_identities(programs: Programs) -> None:
    assert await programs.start(LASTS) != await programs.start(LASTS)


async def test_an_exit_code_is_told_once(programs: Programs) -> None:
    identity = await programs.start(EXITS_3)
    assert await ended(programs, identity) == Exit(code=3)
    assert await ended(programs, identity) == Exit()
    assert not programs.driver.alive(identity)
    assert not programs.driver.group_alive(identity)


async def test_a_signal_that_ended_it_is_told(programs: Programs) -> None:
    identity = await programs.start(LASTS)
    programs.driver.signal(identity, SIGTERM)
    assert await ended(programs, identity) == Exit(signal=SIGTERM)


async def test_a_program_that_ignores_sigterm_ends_by_sigkill(programs: Programs) -> None:
    identity = await programs.start(IGNORES_TERM)
    await programs.said_started()
    programs.driver.signal(identity, SIGTERM)
    assert programs.driver.alive(identity)
    programs.driver.signal_group(identity, SIGKILL)
    assert await ended(programs, identity) == Exit(signal=SIGKILL)


async def test_what_a_leader_leaves_behind_keeps_its_group_alive_until_it_is_killed(programs: Programs) -> None:
    identity = await programs.start(LEAVES_A_CHILD)
    await programs.said_started()
    programs.driver.signal(identity, SIGTERM)
    await ended(programs, identity)
    assert not programs.driver.alive(identity)
    assert programs.driver.group_alive(identity)
    programs.driver.signal_group(identity, SIGKILL)
    await eventually(lambda: not programs.driver.group_alive(identity))


async def test_a_program_that_cannot_be_executed_is_no_process(programs: Programs) -> None:
    with pytest.raises(StartFailed):
        await programs.start(MISSING)


async def test_an_identity_of_another_boot_is_nobody(programs: Programs) -> None:
    identity = (await programs.start(LASTS)).model_copy(update={"boot_id": "another"})
    assert not programs.driver.alive(identity)
    assert not programs.driver.group_alive(identity)
    programs.driver.signal(identity, SIGKILL)
    programs.driver.signal_group(identity, SIGKILL)
    assert await ended(programs, identity) == Exit()


async def test_the_same_pid_with_another_start_is_nobody(programs: Programs) -> None:
    real = await programs.start(LASTS)
    other = real.model_copy(update={"started_at": real.started_at + 100})
    assert not programs.driver.alive(other)
    programs.driver.signal(other, SIGKILL)
    programs.driver.signal_group(other, SIGKILL)
    assert programs.driver.alive(real)


async def test_signals_to_what_is_gone_are_nothing(programs: Programs) -> None:
    identity = await programs.start(EXITS_3)
    await ended(programs, identity)
    programs.driver.signal(identity, SIGTERM)
    programs.driver.signal_group(identity, SIGKILL)
