"""Who holds a claim: this process, described so that an agent on the same machine can see when it is dead."""

from __future__ import annotations

import getpass
import os
import socket

import psutil

from reconciler.agent.drivers.process import machine_boot_id
from reconciler.agent.processes import is_dead
from reconciler.domain.assignment import Holder


def this_process(command: str) -> Holder:
    """The running process as a claim holder; `command` is `apply` or `run`."""
    pid = os.getpid()
    started_at = psutil.Process(pid).create_time()
    machine = socket.gethostname()
    return Holder(
        id=f"{machine}-{pid}-{started_at:.2f}",
        command=command,
        user=this_user(),
        machine=machine,
        boot_id=machine_boot_id(),
        pid=pid,
        started_at=started_at,
    )


def has_ended(holder: Holder) -> bool:
    """Whether a holder of this machine is gone, be it with an earlier boot; False where that cannot be seen."""
    if holder.machine != socket.gethostname():
        return False
    return holder.boot_id != machine_boot_id() or is_dead(holder)


def this_user() -> str:
    """The user's name, or the number where the account has none (containers)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
