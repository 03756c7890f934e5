"""Ending engines without an agent: the signal, its repetition, and SIGKILL to the group at the deadline."""

from __future__ import annotations

from datetime import timedelta
from signal import SIGKILL
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from reconciler.agent.drivers.base import ProcessIdentity, ProcessSpec
from reconciler.agent.drivers.process import ProcessDriver
from reconciler.agent.outgoing import Outgoing, end_processes
from reconciler.engines.base import StopBehaviour
from tests.agent.fake_driver import EXITS_3, IGNORES_TERM, LASTS, LEAVES_A_CHILD
from tests.agent.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

QUICK = StopBehaviour(repeat_after=timedelta(seconds=0.1), kill_after=timedelta(seconds=0.3))


async def start(driver: ProcessDriver, directory: Path, argv: tuple[str, ...]) -> ProcessIdentity:
    log = directory / "log"
    identity = await driver.start(ProcessSpec(argv=argv, env={"PATH": "/usr/bin:/bin"}, log_path=log, cwd=directory))
    if "echo started" in argv[-1]:
        await eventually(lambda: "started" in log.read_text("utf-8"))
    return identity


async def end(driver: ProcessDriver, name: str, identity: ProcessIdentity) -> list[str]:
    """The zombie of our child is taken away meanwhile, as init does with an engine whose agent is gone."""
    said: list[str] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(driver.wait, identity)
        said += await anyio.to_thread.run_sync(end_processes, [Outgoing(name, identity, QUICK)])
    return said


@pytest.mark.parametrize(("argv", "how"), [(LASTS, "stopped"), (IGNORES_TERM, "killed"), (LEAVES_A_CHILD, "stopped")])
async def test_it_says_how_each_went_and_nothing_is_left(tmp_path: Path, argv: tuple[str, ...], how: str) -> None:
    driver = ProcessDriver()
    identity = await start(driver, tmp_path, argv)
    (said,) = await end(driver, "tiny/0@1a2b3c4d", identity)
    assert said.startswith(f"tiny/0@1a2b3c4d {how} after 0.")
    assert f"pid {identity.pid}" in said
    assert not driver.group_alive(identity)


async def test_what_is_gone_already_needs_no_words(tmp_path: Path) -> None:
    driver = ProcessDriver()
    identity = await start(driver, tmp_path, EXITS_3)
    await driver.wait(identity)
    assert end_processes([Outgoing("tiny/0@1a2b3c4d", identity, QUICK)]) == []


async def test_a_leader_that_is_gone_is_not_signalled_but_its_children_are(tmp_path: Path) -> None:
    driver = ProcessDriver()
    identity = await start(driver, tmp_path, LEAVES_A_CHILD)
    driver.signal(identity, SIGKILL)
    await driver.wait(identity)
    assert driver.group_alive(identity)
    end_processes([Outgoing("tiny/0@1a2b3c4d", identity, QUICK)])
    assert not driver.group_alive(identity)
