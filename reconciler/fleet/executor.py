"""One attempt to make each node's assignment real. It makes no choices; trying again is the loop's job."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import anyio

from reconciler.errors import AssignmentRefused, NodeUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.domain.assignment import Assignment
    from reconciler.fleet.protocol import Fleet

CONCURRENT_SENDS = 64
"""Assignments in flight at once: enough to reach 1,000 nodes within a second at 50 ms each."""


class Outcome(StrEnum):
    """What became of one assignment."""

    TAKEN = "taken"
    REFUSED = "refused"
    """The agent said no and why; the next observation shows what has changed."""
    UNKNOWN = "unknown"
    """No answer: it may or may not have been taken, and sending it again is safe."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One assignment and what became of it."""

    node: str
    outcome: Outcome
    revision: int | None = None
    message: str = ""


async def send(fleet: Fleet, assignments: Iterable[Assignment]) -> tuple[Sent, ...]:
    """Send every assignment once, in parallel; sorted by node."""
    results: list[Sent] = []
    limiter = anyio.CapacityLimiter(CONCURRENT_SENDS)

    async def one(assignment: Assignment) -> None:
        async with limiter:
            results.append(await _send_one(fleet, assignment))

    async with anyio.create_task_group() as tasks:
        for assignment in assignments:
            tasks.start_soon(one, assignment)
    return tuple(sorted(results, key=lambda sent: sent.node))


async def _send_one(fleet: Fleet, assignment: Assignment) -> Sent:
    try:
        revision = await fleet.assign(assignment.node, assignment)
    except AssignmentRefused as error:
        return Sent(assignment.node, Outcome.REFUSED, message=error.message)
    except NodeUnreachable as error:
        return Sent(assignment.node, Outcome.UNKNOWN, message=error.message)
    return Sent(assignment.node, Outcome.TAKEN, revision=revision)
