"""Look-ups that hang: given up when nobody waits any more, and in nobody's way at the end."""

from __future__ import annotations

import asyncio
import threading
import time

import anyio
import pytest

from reconciler.fleet.resolving import look_up_unwaited


def test_the_end_of_the_loop_does_not_wait_for_a_look_up_that_hangs() -> None:
    answered = threading.Event()
    timeout = 20.0

    async def give_up() -> bool:
        look_up_unwaited()
        with anyio.move_on_after(0.05) as waited:
            await asyncio.get_running_loop().run_in_executor(None, answered.wait, timeout)
        return waited.cancelled_caught

    started = time.monotonic()
    try:
        assert anyio.run(give_up)
        assert time.monotonic() - started < timeout / 2
    finally:
        answered.set()


def test_names_are_still_looked_up_and_errors_still_told() -> None:
    async def look_up(name: str) -> str:
        look_up_unwaited()
        found = await anyio.getaddrinfo(name, 80)
        return str(found[0][4][0])

    assert anyio.run(look_up, "localhost") in {"127.0.0.1", "::1"}
    with pytest.raises(OSError, match=r"."):
        anyio.run(look_up, "nowhere.invalid")
