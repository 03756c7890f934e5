"""One agent per state directory: a lock file that the agent holds for as long as it lives."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from reconciler.agent.config import agent_directory
from reconciler.agent.drivers.base import ProcessIdentity
from reconciler.agent.processes import identify
from reconciler.domain.base import Frozen
from reconciler.durable import PRIVATE, make_private_directory
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STOPS_ENGINES = "nothing: it stops the engines"
"""What `agent stop --engines` writes where an agent says where it listens: it holds the lock, and answers nobody."""

PATIENCE = 1.0
"""Seconds to try for the lock: whoever only looks whether it is held takes it for a moment."""


class LockHolder(Frozen):
    """The agent that holds the lock, as it wrote itself into the file."""

    identity: ProcessIdentity
    listen: str

    @property
    def stops_engines(self) -> bool:
        """Whether it is no agent, but what ends the engines; it lets go of the lock by itself."""
        return self.listen == STOPS_ENGINES


class LockHeld(AgentError):
    """Another process holds the lock."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """The lock as it is held."""

    path: Path
    descriptor: int

    def lost(self) -> bool:
        """Whether its path leads to no file or to another one: the state directory was deleted, moved or made anew.

        Then another agent can hold the lock of the same path, and nothing of this one may be written any more.
        """
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False  # a disk that does not answer has taken nothing away
        ours = os.fstat(self.descriptor)
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


@contextmanager
def holding_lock(state_dir: Path, listen: str) -> Iterator[Tenure]:
    """Hold the lock of this state directory; LockHeld when another process does, AgentError when it cannot be made.

    The kernel lets go of it however the process ends. Engines do not inherit it.
    """
    path = lock_path(state_dir)
    try:
        make_private_directory(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        raise AgentError(f"the agent's directory cannot be written: {error.strerror} ({path})") from error
    try:
        if not _lock_within(descriptor, PATIENCE):
            holder = _read(path)
            who = f"another agent (pid {holder.identity.pid})" if holder is not None else "another agent"
            raise LockHeld(f"{who} runs for {state_dir}", hint="reconciler agent stop ends it; engines go on")
        identity = identify(os.getpid())
        assert identity is not None, "this process runs"  # noqa: S101  # of the kernel
        with suppress(OSError):  # a full disk: the lock holds all the same, and its holder is found by it
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, LockHolder(identity=identity, listen=listen).model_dump_json().encode(), 0)
        yield Tenure(path, descriptor)
    finally:
        os.close(descriptor)


def is_locked(state_dir: Path) -> bool:
    """Whether an agent holds the lock."""
    try:
        descriptor = os.open(lock_path(state_dir), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_holder(state_dir: Path) -> LockHolder | None:
    """The last agent that took the lock. It may be gone: its identity tells, and is safe to signal."""
    return _read(lock_path(state_dir))


def is_stopping(state_dir: Path) -> bool:
    """Whether `agent stop --engines` holds the lock, which lets go of it by itself."""
    holder = lock_holder(state_dir)
    return holder is not None and holder.stops_engines and is_locked(state_dir)


def lock_path(state_dir: Path) -> Path:
    """The lock file."""
    return agent_directory(state_dir) / "agent.lock"


def _read(path: Path) -> LockHolder | None:
    try:
        return LockHolder.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _lock_within(descriptor: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        else:
            return True
