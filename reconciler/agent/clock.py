"""The time as the agent reads it: one monotonic reading for durations, one aware instant for people."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Moment:
    """Both clocks, read together."""

    seconds: float
    """Of the machine's monotonic clock. Linux counts it from boot, so readings of one boot may be compared across
    processes: deadlines in the journal outlive the agent. Across boots they mean nothing."""
    at: datetime
    """Of the wall clock, in UTC; for display, and to bridge a reboot."""


class Clock(Protocol):
    """Where moments come from."""

    def read(self) -> Moment:
        """Both clocks as of this call."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def read(self) -> Moment:
        """Both clocks as of this call."""
        return Moment(time.monotonic(), datetime.now(UTC))  # noqa: TID251  # the one place where the agent asks
