"""Waiting for facts about real processes: polled, with a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 0.02


async def eventually(fact: Callable[[], bool], within: float = 10) -> None:
    """Wait until it holds; AssertionError after `within` seconds."""
    deadline = time.monotonic() + within
    while not fact():
        assert time.monotonic() < deadline, f"not within {within} s"
        await anyio.sleep(EVERY)


def wait_until(fact: Callable[[], bool], within: float = 10) -> None:
    """The same for tests without an event loop."""
    anyio.run(eventually, fact, within)
