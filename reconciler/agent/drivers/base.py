"""How engine processes are started, watched and signalled: the seam between the supervisor and the machine.

A process is known by pid, start time and boot, so that it can be adopted by another agent process and is never
mistaken for a later process with the same pid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reconciler.domain.base import Frozen
from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class StartFailed(ReconcilerError):
    """The program could not be executed at all; nothing of it runs."""


class ProcessIdentity(Frozen):
    """One process for as long as the machine is up; written to the journal."""

    pid: int
    """Of the leader, which is also the id of its session and of its process group."""
    started_at: float
    """When the kernel started it, seconds since boot: unlike a time of day it stays the same when a clock is set."""
    boot_id: str
    """Of the machine's boot it lives in: after a reboot no identity of before is alive."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to start: the whole environment, nothing is inherited."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    log_path: Path
    """stdout and stderr are appended here."""
    cwd: Path


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended; both None when it was not our child: then nobody can know."""

    code: int | None = None
    signal: int | None = None


class Driver(Protocol):
    """One way to run processes."""

    async def start(self, spec: ProcessSpec) -> ProcessIdentity:
        """Start the program in a session of its own; StartFailed when it cannot be executed."""
        ...

    def alive(self, identity: ProcessIdentity) -> bool:
        """Whether the leader runs: same pid, start time and boot. A zombie is not alive."""
        ...

    async def wait(self, identity: ProcessIdentity) -> Exit:
        """Return once the leader is gone, whoever started it."""
        ...

    def signal(self, identity: ProcessIdentity, number: int) -> None:
        """Send a signal to the leader, and to nothing if it is no longer the same process."""
        ...

    def signal_group(self, identity: ProcessIdentity, number: int) -> None:
        """Send a signal to every process that is left of its session, the leader's orphans included."""
        ...

    def group_alive(self, identity: ProcessIdentity) -> bool:
        """Whether any process of its session is left: orphaned children hold ports and GPU memory."""
        ...
