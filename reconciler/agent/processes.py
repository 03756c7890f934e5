"""What the process table says, whatever the journal says: engines by the log they write, and whether a holder lives."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from reconciler.agent.drivers.base import ProcessIdentity
from reconciler.agent.drivers.process import machine_boot_id, start_time
from reconciler.agent.logs import log_stem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.assignment import Holder

START_TOLERANCE_SECONDS = 5.0
"""psutil derives start times from the boot time, which moves when the wall clock is set; a pid that comes back within
five seconds of its first start is less likely than a clock that is stepped."""


_DELETED = " (deleted)"
"""What the kernel appends to the path of an open file whose name is gone."""

_PORT = re.compile(r"--port(?: |=)(\d{1,5})(?: |$)")
"""How every engine of ours is told its port."""

_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES")
"""Of NVIDIA's, of AMD's and of Intel's: an engine has words in the one of the GPUs that it was started on."""


@dataclass(frozen=True, slots=True)
class Running:
    """An engine's leading process, found by its open log file."""

    identity: ProcessIdentity
    command: str
    ports: tuple[int, ...]
    """It was told to listen on by its command line, then others that it listens on."""
    listens: bool = True
    """Whether the first of them is open."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that it was started with, as far as its environment tells."""
    gpu_numbers: tuple[int, ...] = ()
    """The same by index: vLLM before 0.24 and Gaudi are told nothing else."""


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a running process; None when there is none."""
    started_at = start_time(pid)
    return None if started_at is None else ProcessIdentity(pid=pid, started_at=started_at, boot_id=machine_boot_id())


def running_engines(logs: Path) -> Mapping[str, tuple[Running, ...]]:
    """Engines that write into this log directory, by their log's stem, oldest first; mostly one a stem.

    An engine's output goes to the log of its replica from its first instant, and no program changes that by accident:
    unlike its environment or its title, which vLLM overwrites. The open file is found when it was rotated, and when it
    or its directory was deleted.
    """
    directory = str(logs.resolve())
    processes: dict[str, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        target = _output(process.pid)
        if target is not None and os.path.dirname(target) == directory:  # noqa: PTH120  # a Path for each one is slow
            processes.setdefault(log_stem(Path(target)), []).append(process)
    found = {stem: tuple(_described(each)) for stem, each in processes.items()}
    return {stem: engines for stem, engines in found.items() if engines}


def lock_owners(lock: Path, *, displaced: bool = False) -> tuple[ProcessIdentity, ...]:
    """Processes that hold the lock on this file, or on one that was deleted from its place.

    `displaced`: only the latter. Read from the kernel's own list of locks, so that it holds whatever the file says, and
    so that a process that only looks whether it is locked is not taken for an agent.
    """
    usual = str(lock.parent.resolve() / lock.name)
    wanted = {f"{usual}{_DELETED}"} if displaced else {usual, f"{usual}{_DELETED}"}
    found = (identify(pid) for pid in psutil.pids() if _locks(pid, wanted))
    return tuple(identity for identity in found if identity is not None)


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
        return os.readlink(f"/proc/{pid}/fd/1").removesuffix(_DELETED)  # noqa: PTH115  # as above
    except OSError:
        return None


def _locks(pid: int, wanted: set[str]) -> bool:
    """Whether a process has one of these files open and the exclusive lock on it."""
    try:
        opened = [name for name in os.listdir(f"/proc/{pid}/fd") if _link(pid, name) in wanted]  # noqa: PTH208  # as above
        infos = [Path(f"/proc/{pid}/fdinfo/{name}").read_text("ascii") for name in opened]
    except OSError:
        return False
    return any("FLOCK" in info and f"WRITE {pid} " in info for info in infos)


def _link(pid: int, name: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115  # as above
    except OSError:
        return None


def _described(processes: list[psutil.Process]) -> Iterator[Running]:
    """The engines among the processes that write one log; a session that an engine itself began is part of it."""
    pids = {each.pid for each in processes}
    for process in sorted(processes, key=lambda each: (start_time(each.pid) or 0.0, each.pid)):
        try:
            inner = any(parent.pid in pids for parent in process.parents()) if len(pids) > 1 else False
        except psutil.Error:
            continue
        running = None if inner else _describe(process)
        if running is not None:
            yield running


def _describe(process: psutil.Process) -> Running | None:
    try:
        command = " ".join(process.cmdline())
        listening = {
            each.laddr.port
            for each in process.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr
        }
        environ = process.environ()
        visible = next((environ[name] for name in _GPUS if environ.get(name)), "")
    except psutil.Error:
        return None
    identity = identify(process.pid)
    if identity is None:
        return None
    told = {int(port) for port in _PORT.findall(command)}
    ports = tuple(sorted(listening | told, key=lambda port: (port not in told, port)))
    words = [word.strip() for word in visible.split(",") if word.strip()]
    return Running(
        identity,
        command,
        ports,
        listens=bool(ports) and ports[0] in listening,
        gpus=tuple(word for word in words if not word.isdecimal()),
        gpu_numbers=tuple(int(word) for word in words if word.isdecimal()),
    )
