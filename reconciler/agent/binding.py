"""Whether this node lets engines be bound to NUMA nodes."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from signal import SIGKILL
from typing import TYPE_CHECKING

from reconciler.engines.numa import BINDS, numactl

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 2.0
"""Seconds; it takes milliseconds, and the agent waits for it."""


def can_bind(nodes: Iterable[int], path: str | None) -> bool:
    """Whether `numactl` is on `path` and runs a program on each of these NUMA nodes.

    Being installed is not enough: containers mostly forbid it (Docker without SYS_NICE), and a set of cores that leaves
    a node out does so too. It then ends with an error, and an engine behind it would never start.
    """
    found = shutil.which(BINDS, path=path)
    return found is not None and all(_runs((found, *numactl(node)[1:], "true")) for node in set(nodes))


def _runs(words: tuple[str, ...]) -> bool:
    """Whether this ends well in time; one that hangs is killed, and what it started with it."""
    silent = subprocess.DEVNULL
    try:
        process = subprocess.Popen(words, stdin=silent, stdout=silent, stderr=silent, start_new_session=True)
    except OSError:
        return False
    try:
        return process.wait(_LONGEST) == 0
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)
        process.wait()
        return False
