"""One look at the fleet, for `plan` and `status`: nothing is claimed, sent or started."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio

from reconciler.controller.apply import HEAR_WITHIN
from reconciler.controller.heard import Heard, read_heard
from reconciler.fleet.external import ask_externals
from reconciler.fleet.observer import observing
from reconciler.fleet.resolving import look_up_unwaited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.controller.ground import Ground
    from reconciler.domain.external import ExternalAnswer
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.observed import Observation

HOLD = timedelta(seconds=5)
"""A first question is answered at once; this only keeps quick nodes quiet while a slow one is waited for."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What nodes and external models say now."""

    observed: Observation
    externals: Mapping[str, ExternalAnswer]
    """By the model's name."""


async def look(ground: Ground) -> Observation:
    """What every node says now; a node that does not answer is unreachable, since it was last heard by anyone here."""
    heard_at = {} if ground.state is None else read_heard(ground.state)
    look_up_unwaited()
    try:
        async with observing(ground.fleet, ground.inventory, HOLD, heard_at=heard_at) as observer:
            observed = await observer.hear_all(HEAR_WITHIN)
    finally:
        await ground.fleet.close()
    if ground.state is not None:
        Heard(ground.state).note(observed)
    return observed


async def ask(externals: Sequence[ModelSpec]) -> Mapping[str, ExternalAnswer]:
    """What external models answer, by name; the loop does not wait for a look-up that is given up."""
    look_up_unwaited()
    return await ask_externals(externals)


async def look_beyond(ground: Ground, externals: Sequence[ModelSpec]) -> Looked:
    """As `look`, and what external models answer, asked at the same time."""
    answers: dict[str, ExternalAnswer] = {}

    async def beyond() -> None:
        answers.update(await ask(externals))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beyond)
        observed = await look(ground)
    return Looked(observed, answers)
