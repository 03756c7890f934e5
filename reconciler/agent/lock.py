"""One agent per state directory: a lock file that the agent holds for as long as it lives."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
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

PATIENCE = 1.0
"""Seconds to try for the lock: whoever only looks whether it is held takes it for a moment."""


class LockHolder(Frozen):
    """The agent that holds the lock, as it wrote itself into the file."""

    identity: ProcessIdentity
    listen: str


@contextmanager
def holding_lock(state_dir: Path, listen: str) -> Iterator[None]:
    """Hold the lock of this state directory; AgentError when another process does.

    The kernel lets go of it however the process ends. Engines do not inherit it.
    """
    path = _path(state_dir)
    try:
        make_private_directory(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        raise AgentError(f"the agent's directory cannot be written: {error.strerror} ({path})") from error
    try:
        if not _lock_within(descriptor, PATIENCE):
            holder = _read(path)
            who = f"another agent (pid {holder.identity.pid})" if holder is not None else "another agent"
            raise AgentError(f"{who} runs for {state_dir}", hint="reconciler agent stop ends it; engines go on")
        identity = identify(os.getpid())
        assert identity is not None, "this process runs"  # noqa: S101  # of the kernel
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, LockHolder(identity=identity, listen=listen).model_dump_json().encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_locked(state_dir: Path) -> bool:
    """Whether an agent holds the lock."""
    try:
        descriptor = os.open(_path(state_dir), os.O_RDONLY | os.O_CLOEXEC)
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
    return _read(_path(state_dir))


def _path(state_dir: Path) -> Path:
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
