"""Who holds a claim: this process, described so that an agent on the same machine can see when it is dead."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

import psutil

from reconciler.domain.assignment import Holder


def this_process(command: str) -> Holder:
    """The running process as a claim holder; `command` is `apply` or `run`."""
    pid = os.getpid()
    started_at = psutil.Process(pid).create_time()
    machine = socket.gethostname()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return Holder(
        id=f"{machine}-{pid}-{started_at:.2f}",
        command=command,
        user=this_user(),
        machine=machine,
        boot_id=boot_id,
        pid=pid,
        started_at=started_at,
    )


def this_user() -> str:
    """The user's name, or the number where the account has none (containers)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
