"""Counts what it costs to look at sources, and tells whoever shows progress."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Meter:
    """Requests sent and bytes read so far; several threads may count at once."""

    def __init__(self, told: Callable[[str], None] | None = None) -> None:
        """`told` gets the name of the file after each part read of it, one call at a time."""
        self.requests = 0
        self.bytes = 0
        self._told = told
        self._lock = threading.Lock()

    def asked(self) -> None:
        """One more request, redirects counted each."""
        with self._lock:
            self.requests += 1

    def read(self, name: str, count: int) -> None:
        """So many more bytes of a file."""
        with self._lock:
            self.bytes += count
            if self._told is not None:
                self._told(name)
