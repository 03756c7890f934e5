"""A fault of the reconciler itself breaks a promise: its loop goes on after one, and would hide it from a story."""

from __future__ import annotations

import logging

import anyio
from typing_extensions import override


class Faults(logging.Handler):
    """Takes down whatever is logged as an error."""

    def __init__(self, broken: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.broken = broken

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.broken.append(f"{anyio.current_time():.0f} s: {logging.Formatter().format(record)}")
