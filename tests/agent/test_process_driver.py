"""The process driver on real processes: what only it does, beyond the contract that `test_driver_contract` holds."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import TYPE_CHECKING

import anyio
import pytest

from reconciler.agent.drivers.base import Exit, ProcessIdentity, ProcessSpec, StartFailed
from reconciler.agent.drivers.process import ProcessDriver, machine_boot_id, start_time
from tests.agent.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

pytestmark = pytest.mark.anyio

PARENT = """
import anyio, os, sys
from pathlib import Path
from reconciler.agent.drivers.base import ProcessSpec
from reconciler.agent.drivers.process import ProcessDriver

async def main():
    here = Path(sys.argv[1])
    spec = ProcessSpec(argv=tuple(sys.argv[2:]), env={"PATH": os.environ["PATH"]}, log_path=here / "log", cwd=here)
    print((await ProcessDriver().start(spec)).model_dump_json(), flush=True)
    sys.stdin.read()
    os._exit(0)

anyio.run(main)
"""
"""Another process that starts one, says which, and stays until its stdin is closed; it never reaps."""


def spec(directory: Path, *argv: str, env: Mapping[str, str] | None = None) -> ProcessSpec:
    return ProcessSpec(argv=argv, env=env or {"PATH": "/usr/bin:/bin"}, log_path=directory / "log", cwd=directory)


@asynccontextmanager
async def running(directory: Path, *argv: str) -> AsyncIterator[tuple[ProcessDriver, ProcessIdentity]]:
    driver = ProcessDriver()
    identity = await driver.start(spec(directory, *argv))
    try:
        yield driver, identity
    finally:
        driver.signal_group(identity, SIGKILL)
        await driver.wait(identity)


async def run(directory: Path, *argv: str, env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end; what it wrote."""
    driver = ProcessDriver()
    with anyio.fail_after(10):
        assert await driver.wait(await driver.start(spec(directory, *argv, env=env))) == Exit(code=0)
    return (directory / "log").read_text("utf-8")


def pid_in(path: Path) -> int:
    return int(path.read_text("ascii"))


def has_ended(pid: int) -> bool:
    """Gone, or a zombie that its parent has not asked about."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


async def test_it_leads_a_session_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path, "sleep", "60") as (_, identity):
        assert os.getsid(identity.pid) == identity.pid == os.getpgid(identity.pid)
        assert identity.boot_id == machine_boot_id()
        assert identity.started_at == start_time(identity.pid)


async def test_it_has_the_given_environment_and_no_other(tmp_path: Path) -> None:
    assert await run(tmp_path, "/usr/bin/env", env={"ONLY": "this"}) == "ONLY=this\n"


async def test_it_has_no_input_and_no_open_files_of_ours(tmp_path: Path) -> None:
    with (tmp_path / "ours").open("wb") as ours:
        os.set_inheritable(ours.fileno(), True)
        listed = await run(tmp_path, "sh", "-c", "readlink /proc/$$/fd/*; cat")
    assert listed.splitlines() == ["/dev/null", str(tmp_path / "log"), str(tmp_path / "log")]


async def test_output_and_errors_are_appended_to_the_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n", "utf-8")
    assert await run(tmp_path, "sh", "-c", "echo out; echo err >&2") == "before\nout\nerr\n"


async def test_it_runs_in_the_given_directory(tmp_path: Path) -> None:
    assert await run(tmp_path, "pwd") == f"{tmp_path}\n"


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match=r"^no-such-engine was not started: no such program$"):
        await ProcessDriver().start(spec(tmp_path, "no-such-engine"))


async def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("no program", "utf-8")
    with pytest.raises(StartFailed, match=r"engine was not started: Permission denied$"):
        await ProcessDriver().start(spec(tmp_path, str(tmp_path / "engine")))


async def test_a_missing_working_directory_is_told_from_a_missing_program(tmp_path: Path) -> None:
    nowhere = ProcessSpec(argv=("true",), env={"PATH": "/bin"}, log_path=tmp_path / "log", cwd=tmp_path / "gone")
    with pytest.raises(StartFailed, match=r"its working directory .*/gone does not exist"):
        await ProcessDriver().start(nowhere)


async def test_a_log_that_cannot_be_opened_is_told_from_a_missing_program(tmp_path: Path) -> None:
    nowhere = ProcessSpec(argv=("true",), env={"PATH": "/bin"}, log_path=tmp_path / "gone" / "log", cwd=tmp_path)
    with pytest.raises(StartFailed, match=r"the directory of its log .*/gone/log does not exist"):
        await ProcessDriver().start(nowhere)


@contextmanager
def foreign_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that no driver started, leader of its session as engines are."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("later", "boot_id"), [(-1, None), (1, None), (0, "another")])
async def test_a_process_that_only_has_the_pid_is_never_signalled(later: float, boot_id: str | None) -> None:
    """As when the pid went round, or after a reboot."""
    driver = ProcessDriver()
    with foreign_process() as foreign:
        started_at = start_time(foreign.pid)
        assert started_at is not None
        wrong = ProcessIdentity(pid=foreign.pid, started_at=started_at + later, boot_id=boot_id or machine_boot_id())
        assert not driver.alive(wrong)
        assert not driver.group_alive(wrong)
        driver.signal(wrong, SIGKILL)
        driver.signal_group(wrong, SIGKILL)
        with anyio.fail_after(5):
            assert await driver.wait(wrong) == Exit()
        assert not has_ended(foreign.pid)


async def test_a_zombie_is_gone(tmp_path: Path) -> None:
    async with running(tmp_path, "true") as (driver, identity):
        await eventually(lambda: not driver.alive(identity))
        assert start_time(identity.pid) == identity.started_at  # it waits for us to ask, and is still in the table
        assert not driver.group_alive(identity)
        assert await driver.wait(identity) == Exit(code=0)
        assert start_time(identity.pid) is None


async def test_a_stopped_process_is_alive(tmp_path: Path) -> None:
    async with running(tmp_path, "sleep", "60") as (driver, identity):
        driver.signal(identity, SIGSTOP)
        assert driver.alive(identity)
        driver.signal(identity, SIGCONT)


async def test_a_signal_to_the_leader_is_for_it_alone(tmp_path: Path) -> None:
    script = "trap 'exit 9' TERM; sleep 60 & echo $! > child; wait"
    async with running(tmp_path, "sh", "-c", script) as (driver, identity):
        await eventually(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() != "")
        driver.signal(identity, SIGTERM)
        assert await driver.wait(identity) == Exit(code=9)
        assert driver.group_alive(identity)
        assert not has_ended(pid_in(tmp_path / "child"))


async def test_children_of_a_killed_leader_are_found_and_killed_by_another_driver(tmp_path: Path) -> None:
    script = "sh -c 'sleep 60 & echo $! > grandchild; wait' & echo $! > child; wait"
    async with running(tmp_path, "sh", "-c", script) as (driver, identity):
        await eventually(lambda: (tmp_path / "grandchild").exists() and (tmp_path / "grandchild").read_text() != "")
        children = [pid_in(tmp_path / "child"), pid_in(tmp_path / "grandchild")]
        driver.signal(identity, SIGKILL)
        assert await driver.wait(identity) == Exit(signal=SIGKILL)
        after_restart = ProcessDriver()
        remembered = ProcessIdentity.model_validate_json(identity.model_dump_json())
        assert after_restart.group_alive(remembered)
        after_restart.signal_group(remembered, SIGKILL)
        await eventually(lambda: not after_restart.group_alive(remembered))
        assert all(has_ended(child) for child in children)


@contextmanager
def started_by_another(directory: Path, *argv: str) -> Iterator[tuple[subprocess.Popen[str], ProcessIdentity]]:
    """A process whose parent is not this test, nor gone, and does not reap it."""
    command = [sys.executable, "-c", PARENT, str(directory), *argv]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            identity = ProcessIdentity.model_validate_json(parent.stdout.readline())
            try:
                yield parent, identity
            finally:
                ProcessDriver().signal_group(identity, SIGKILL)
        finally:
            parent.kill()


async def test_an_adopted_process_is_waited_for_while_its_parent_does_not_reap_it(tmp_path: Path) -> None:
    with started_by_another(tmp_path, "sleep", "60") as (_, identity):
        driver = ProcessDriver()
        assert driver.alive(identity)
        ends: list[Exit] = []

        async def watch() -> None:
            ends.append(await driver.wait(identity))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                await anyio.wait_all_tasks_blocked()
                assert ends == []
                driver.signal(identity, SIGTERM)
        assert ends == [Exit()]
        assert start_time(identity.pid) == identity.started_at  # a zombie of the other process
        assert not driver.alive(identity)


async def test_an_adopted_process_outlives_the_one_that_started_it(tmp_path: Path) -> None:
    with started_by_another(tmp_path, "sleep", "60") as (parent, identity):
        assert parent.stdin is not None
        parent.stdin.close()
        parent.wait(10)
        driver = ProcessDriver()
        assert driver.alive(identity)
        driver.signal(identity, SIGKILL)
        with anyio.fail_after(10):
            assert await driver.wait(identity) == Exit()
        assert not driver.group_alive(identity)
