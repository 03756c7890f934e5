"""Whether this node lets engines be bound to NUMA nodes."""

from __future__ import annotations

import shutil
import subprocess
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
    try:
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LONGEST, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
