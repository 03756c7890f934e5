"""An event loop whose time passes only when nothing else can happen: hours of a rollout in a second, always the same.

Everything written with anyio runs on it unchanged: `anyio.current_time`, sleeps and timeouts read the loop's clock.
Nothing on it may wait for a thread, a socket or a process: those take real time, of which it has none.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


class Stalled(RuntimeError):
    """Every task waits for something that no other task and no time will bring."""


class _Jump(selectors.DefaultSelector):
    """Instead of sleeping until the next timer, moves the clock there."""

    seconds = 0.0

    def select(  # type: ignore[explicit-override]  # Python 3.11 has no decorator for it
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; where nothing is, the time of the next timer has come."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Stalled("every task waits, and no timer is set")
        self.seconds += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at 0 and jumps from timer to timer."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:  # type: ignore[explicit-override]  # as above
        """Virtual seconds since the loop was made."""
        return self._jump.seconds


def run_virtually(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """`anyio.run` in virtual time; no other loop may run in this thread."""
    return anyio.run(function, *args, backend="asyncio", backend_options={"loop_factory": VirtualLoop})
