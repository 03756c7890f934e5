"""Names of hosts looked up in threads that nobody waits for.

A resolver may take half a minute to give up, and cannot be interrupted. asyncio looks names up in its default
executor and waits for that at the end of the loop: a command whose question is long given up would hang there.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
P = ParamSpec("P")


class _Unwaited(ThreadPoolExecutor):
    """One daemon thread a call; neither the loop's end nor the interpreter's waits for it."""

    def submit(  # type: ignore[explicit-override]  # Python 3.11 has no decorator for it
        self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Call it in a thread of its own."""
        future: Future[T] = Future()
        Thread(target=_call, args=(future, lambda: function(*args, **kwargs)), daemon=True).start()
        return future


def _call(future: Future[T], act: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = act()
    except (OSError, ValueError) as error:  # no such name, or one that no resolver can be asked for
        future.set_exception(error)
    else:
        future.set_result(result)


def look_up_unwaited() -> None:
    """From now on the running loop's look-ups are given up as soon as nobody waits for them."""
    asyncio.get_running_loop().set_default_executor(_Unwaited())
