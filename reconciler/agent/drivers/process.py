"""Engine processes as plain processes of this machine, each in a session of its own.

Everything is read from /proc and done through pidfds, so that it works the same for our children and for processes
that an agent of before started, and so that a signal never reaches a later process with the same pid.
A process that moves itself to another session (a daemon) is out of reach here; the systemd driver is for those.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from reconciler.agent.drivers.base import Exit, ProcessIdentity, ProcessSpec, StartFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

_GONE_STATES = frozenset("ZX")
"""Zombie and dead: it holds no memory, port or GPU any more, only its exit code waits."""

_SCANS = 8
"""Times a session is looked through for members that forked while it was signalled: a fork storm ends sooner."""


@cache
def machine_boot_id() -> str:
    """The kernel's id of this boot; it changes with every boot and never in between."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def start_time(pid: int) -> float | None:
    """When a process was started, in seconds since boot; None when there is no such process.

    Not psutil's `create_time`: that is a time of day, and moves when the machine's clock is set.
    """
    found = _read(pid)
    return None if found is None else found.started_at


class ProcessDriver:
    """Starts, watches and signals processes of this machine. See `Driver` for the contract."""

    def __init__(self) -> None:
        self._children: dict[ProcessIdentity, subprocess.Popen[bytes]] = {}

    async def start(self, spec: ProcessSpec) -> ProcessIdentity:
        """Start in a new session, without stdin, output appended to the log; StartFailed when it cannot be executed.

        A cancelled start has either not begun or is finished and returned: no process is ever lost.
        """
        return await to_thread.run_sync(self._start, spec)

    def _start(self, spec: ProcessSpec) -> ProcessIdentity:
        try:
            with spec.log_path.open("ab") as log:
                child = subprocess.Popen(
                    spec.argv,
                    env=dict(spec.env),
                    cwd=spec.cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    close_fds=True,
                )
        except OSError as error:
            raise _not_started(spec, error) from error
        started_at = start_time(child.pid)
        assert started_at is not None, "a child that nobody reaped is in /proc"  # noqa: S101  # the kernel keeps it there
        identity = ProcessIdentity(pid=child.pid, started_at=started_at, boot_id=machine_boot_id())
        self._children[identity] = child
        return identity

    def alive(self, identity: ProcessIdentity) -> bool:
        """Whether the leader runs: same boot, pid and start time, and no zombie."""
        found = _find(identity)
        return found is not None and not found.gone

    async def wait(self, identity: ProcessIdentity) -> Exit:
        """Return once the leader is gone, at once when it is already.

        Only the first call after the end of our own child learns code or signal: it is forgotten with the zombie.
        """
        with _pidfd(identity) as handle:
            if handle is not None:
                await anyio.wait_readable(handle)
        child = self._children.pop(identity, None)
        if child is None:
            return Exit()
        code = child.wait()
        return Exit(code=code) if code >= 0 else Exit(signal=-code)

    def signal(self, identity: ProcessIdentity, number: int) -> None:
        """Send a signal to the leader; nothing happens when it is gone or its pid belongs to another process."""
        with _pidfd(identity) as handle:
            _send(handle, number)

    def signal_group(self, identity: ProcessIdentity, number: int) -> None:
        """Send a signal to every process of the session, also when the leader is gone; once each."""
        reached: set[int] = set()
        for _ in range(_SCANS):
            fresh = [pid for pid in _members(identity) if pid not in reached]
            if not fresh:
                return
            for pid in fresh:
                reached.add(pid)
                with _opened(pid) as handle:
                    # Read again now that the handle pins the process: the pid may have changed hands in between.
                    if handle is not None and _in_session(_read(pid), identity):
                        _send(handle, number)

    def group_alive(self, identity: ProcessIdentity) -> bool:
        """Whether any process of the session runs, the leader or what it left behind."""
        return next(_members(identity), None) is not None


@dataclass(frozen=True, slots=True)
class _Found:
    """What /proc/PID/stat says."""

    gone: bool
    session: int
    started_at: float


def _read(pid: int) -> _Found | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    # The command stands in parentheses and may itself hold any character; what follows the last one is fixed.
    fields = text.rpartition(")")[2].split()
    state, session, start = fields[0], fields[3], fields[19]
    return _Found(state in _GONE_STATES, int(session), int(start) / _TICKS_PER_SECOND)


def _find(identity: ProcessIdentity) -> _Found | None:
    """The leader, a zombie included; None when its pid is free or belongs to another process."""
    if identity.boot_id != machine_boot_id():
        return None
    found = _read(identity.pid)
    return found if found is not None and found.started_at == identity.started_at else None


def _in_session(found: _Found | None, identity: ProcessIdentity) -> bool:
    return (
        found is not None
        and not found.gone
        and found.session == identity.pid
        and found.started_at >= identity.started_at
    )


def _members(identity: ProcessIdentity) -> Iterator[int]:
    """Pids of the session's processes.

    The kernel gives a pid to nobody while a session has it as its id, so a pid in use by another process means that
    our session is gone. What stays open: our session ends, its pid is given to another session's leader, and that
    leader ends too and leaves children. An agent that clears its journal when the session is empty never meets it.
    """
    leader = _read(identity.pid)
    if identity.boot_id != machine_boot_id() or (leader is not None and leader.started_at != identity.started_at):
        return
    for name in os.listdir("/proc"):  # noqa: PTH208  # names are all we want, thousands of them
        if name.isdecimal() and _in_session(_read(int(name)), identity):
            yield int(name)


@contextmanager
def _opened(pid: int) -> Iterator[int | None]:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _pidfd(identity: ProcessIdentity) -> Iterator[int | None]:
    """A handle on exactly this process, or None. The identity is checked after the handle pins the process."""
    with _opened(identity.pid) as handle:
        yield handle if _find(identity) is not None else None


def _send(handle: int | None, number: int) -> None:
    if handle is not None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)


def _not_started(spec: ProcessSpec, error: OSError) -> StartFailed:
    program, reason = spec.argv[0], error.strerror or str(error)
    match error:
        case FileNotFoundError() if str(error.filename) == str(spec.cwd):
            return StartFailed(f"{program} was not started: its working directory {spec.cwd} does not exist")
        case FileNotFoundError() if str(error.filename) == str(spec.log_path):
            return StartFailed(f"{program} was not started: the directory of its log {spec.log_path} does not exist")
        case FileNotFoundError():
            return StartFailed(
                f"{program} was not started: no such program", hint="install it, or name it in the agent's config"
            )
        case _:
            return StartFailed(f"{program} was not started: {reason}")
