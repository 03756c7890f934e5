"""External models beside the passes of `run`: asked now and then, told when something changed, in nobody's way."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

import anyio

from reconciler.fleet.external import ask_externals
from reconciler.views.external import changed_lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from reconciler.domain.desired import Desired
    from reconciler.domain.external import ExternalAnswer
    from reconciler.domain.model_spec import ModelSpec

    Ask = Callable[[Sequence[ModelSpec]], Awaitable[Mapping[str, ExternalAnswer]]]

ASK_EVERY = timedelta(seconds=30)
"""Providers count requests; half a minute is soon enough for a line that only tells people."""


def externals_of(desired: Desired, only: str | None = None) -> tuple[ModelSpec, ...]:
    """The external models of a tree, or the one of this name."""
    return tuple(model for model in desired.models if model.external is not None and only in {None, model.name})


class Externals:
    """Remembers the last answers. A pass says what is wanted; asking happens in `follow`, so that no pass waits."""

    def __init__(self, said: Callable[[str], None], ask: Ask = ask_externals) -> None:
        self._said = said
        self._ask = ask
        self._answers: Mapping[str, ExternalAnswer] = {}
        self._wanted: tuple[ModelSpec, ...] = ()
        self._due_at = 0.0
        """On the monotonic clock."""
        self._due = anyio.Event()

    def aimed(self, desired: Desired) -> None:
        """Before a pass: ask again where these are other models, or the last question is `ASK_EVERY` ago."""
        wanted = externals_of(desired)
        if wanted != self._wanted or (wanted and anyio.current_time() >= self._due_at):
            self._wanted = wanted
            self._due_at = anyio.current_time() + ASK_EVERY.total_seconds()
            self._due.set()

    async def follow(self) -> NoReturn:
        """Ask whenever it is due, for ever; say what is another answer than before."""
        while True:
            await self._due.wait()
            self._due = anyio.Event()
            answers = await self._ask(self._wanted)
            for line in changed_lines(self._answers, answers):
                self._said(line)
            self._answers = answers
