"""What the process table says, whatever the journal says: engines by the log they write, and whether a holder lives."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from reconciler.agent.drivers.base import ProcessIdentity
from reconciler.agent.drivers.process import machine_boot_id, start_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.assignment import Holder

START_TOLERANCE_SECONDS = 5.0
"""psutil derives start times from the boot time, which moves when the wall clock is set; a pid that comes back within
five seconds of its first start is less likely than a clock that is stepped."""


@dataclass(frozen=True, slots=True)
class Running:
    """An engine's leading process, found by its open log file."""

    identity: ProcessIdentity
    command: str
    ports: tuple[int, ...]
    """It listens on; those that its command line names come first."""


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a running process; None when there is none."""
    started_at = start_time(pid)
    return None if started_at is None else ProcessIdentity(pid=pid, started_at=started_at, boot_id=machine_boot_id())


def running_engines(logs: Path) -> Mapping[str, Running]:
    """Engines that write into this log directory, by their log's stem.

    An engine's output goes to the log of its replica from its first instant, and no program changes that by accident:
    unlike its environment or its title, which vLLM overwrites.
    """
    if not logs.is_dir():
        return {}
    directory = str(logs.resolve())
    found: dict[str, Running] = {}
    for process in psutil.process_iter():
        target = _output(process.pid)
        if target is None or os.path.dirname(target) != directory:  # noqa: PTH120  # a Path for each process is slow
            continue
        running = _describe(process)
        if running is not None:
            found[Path(target).name.removesuffix(".log")] = running
    return found


def is_dead(holder: Holder) -> bool:
    """Whether a holder of this machine and boot is gone: no such process, or another one with its pid."""
    try:
        process = psutil.Process(holder.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        return abs(process.create_time() - holder.started_at) > START_TOLERANCE_SECONDS
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _output(pid: int) -> str | None:
    """The file behind a process's stdout, if it leads its session; None when it may not be looked at or is gone."""
    try:
        if os.getsid(pid) != pid:
            return None
        return os.readlink(f"/proc/{pid}/fd/1").removesuffix(" (deleted)")  # noqa: PTH115  # as above
    except OSError:
        return None


def _describe(process: psutil.Process) -> Running | None:
    try:
        words = process.cmdline()
        listening = {
            each.laddr.port
            for each in process.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr
        }
    except psutil.Error:
        return None
    identity = identify(process.pid)
    if identity is None:
        return None
    ports = tuple(sorted(listening, key=lambda port: (str(port) not in words, port)))
    return Running(identity, " ".join(words), ports)
