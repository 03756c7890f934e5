"""One look at the fleet, for `plan` and `status`: nothing is claimed, sent or started."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.controller.apply import HEAR_WITHIN
from reconciler.fleet.observer import observing

if TYPE_CHECKING:
    from reconciler.controller.ground import Ground
    from reconciler.domain.observed import Observation

HOLD = timedelta(seconds=5)
"""A first question is answered at once; this only keeps quick nodes quiet while a slow one is waited for."""


async def look(ground: Ground) -> Observation:
    """What every node says now; a node that does not answer is unreachable."""
    try:
        async with observing(ground.fleet, ground.inventory, HOLD) as observer:
            return await observer.hear_all(HEAR_WITHIN)
    finally:
        await ground.fleet.close()
