"""`apply`: passes until the fleet is as the commit says, or until nothing more can be done without a person."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from reconciler.controller.attempt import Attempts
from reconciler.controller.claims import Claims, claiming
from reconciler.domain.intent import Intent, IntentKind
from reconciler.domain.observed import ReplicaState
from reconciler.fleet.executor import Outcome
from reconciler.fleet.observer import observing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reconciler.controller.aim import Aim
    from reconciler.controller.attempt import Pass
    from reconciler.controller.ground import Ground
    from reconciler.domain.assignment import Holder

LOOK_EVERY = timedelta(seconds=1)
"""While something is in flight: how old progress on the screen may be."""

HEAR_WITHIN = timedelta(seconds=25)
"""For the first look at all nodes: longer than a silent node takes to be called unreachable (15 s and a retry)."""

REFUSALS_BEFORE_GIVING_UP = 5
"""An agent may refuse once or twice while it and the plan catch up with each other; five in a row is a fault."""

IN_FLIGHT = frozenset(
    {
        ReplicaState.PENDING,
        ReplicaState.STARTING,
        ReplicaState.UNHEALTHY,  # its agent cures or ends it within a minute
        ReplicaState.DRAINING,
        ReplicaState.STOPPING,
    }
)


class Ending(Enum):
    """How an apply ended; the value is the exit code of design section 4."""

    DONE = 0
    FAILED = 1
    LIMIT = 6
    WAITING = 7
    INTERRUPTED = 130


class Reporter(Protocol):
    """Who is told what happens, pass by pass."""

    def passed(self, done: Pass) -> None:
        """After every pass."""
        ...

    def said(self, message: str) -> None:
        """One line about something out of the ordinary."""
        ...


@dataclass(slots=True)
class StopRequest:
    """Set from outside by the first Ctrl-C: finish what is in flight and start nothing."""

    asked: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """How it ended, and what the last pass saw."""

    ending: Ending
    last: Pass


@asynccontextmanager
async def attempting(ground: Ground, fleet_name: str, holder: Holder, wait: timedelta) -> AsyncIterator[Attempts]:
    """Observe every node and keep claims renewed for as long as the block runs."""
    claims = Claims(ground.fleet, fleet_name, holder)
    async with claiming(claims), observing(ground.fleet, ground.inventory, wait) as observer:
        await observer.hear_all(HEAR_WITHIN)
        yield Attempts(ground.fleet, observer, claims, ground.inventory)


def retry_once(holder: Holder) -> Intent:
    """A person who runs `apply` wants what failed to be tried again: once per apply, so never in a loop."""
    return Intent(
        id=f"apply-{holder.id}",
        kind=IntentKind.RETRY,
        author=holder.user,
        reason="apply",
        created_at=datetime.now(UTC),  # noqa: TID251  # the shell reads the clock
    )


async def apply(
    ground: Ground, aim: Aim, holder: Holder, reporter: Reporter, stop: StopRequest, *, only: str | None = None
) -> Applied:
    """Pass after pass until an ending is reached. ClaimRefused when another reconciler holds the fleet."""
    intents = (retry_once(holder),)
    refusals = 0
    async with attempting(ground, aim.desired.fleet.name, holder, LOOK_EVERY) as attempts:
        while True:
            done = await attempts.once(aim, intents, only=only, may_start=not stop.asked)
            reporter.passed(done)
            refusals = refusals + 1 if _refused(done, reporter) else 0
            ending = _ending(done, stop, refusals, attempts)
            if ending is not None:
                return Applied(ending, done)
            within = min(LOOK_EVERY, done.decision.look_again_in or LOOK_EVERY)
            await attempts.observer.changed(within)


def in_flight(done: Pass) -> bool:
    """Whether a replica of this fleet is starting or ending, so that waiting makes sense."""
    return any(replica.state in IN_FLIGHT for _, replica in done.observed.replicas())


def _refused(done: Pass, reporter: Reporter) -> bool:
    """Whether this pass sent something and nothing was taken; says why."""
    bad = [sent for sent in done.sent if sent.outcome is not Outcome.TAKEN]
    for sent in bad:
        reporter.said(f"{sent.message}; trying again")
    return bool(bad) and len(bad) == len(done.sent)


def _ending(done: Pass, stop: StopRequest, refusals: int, attempts: Attempts) -> Ending | None:
    """Whether there is nothing left to do or to wait for."""
    if stop.asked:
        return None if in_flight(done) else Ending.INTERRUPTED
    if done.decision.settled:
        return Ending.DONE
    if refusals >= REFUSALS_BEFORE_GIVING_UP:
        return Ending.FAILED
    due = any(orders.changes_something for orders in done.decision.orders.values())
    if due and not done.sent and not attempts.claims.enough(len(attempts.inventory)):
        return Ending.WAITING
    if due or done.sent or in_flight(done) or done.decision.look_again_in is not None:
        return None
    return stuck(done)


def stuck(done: Pass) -> Ending:
    """The exit code for what blocks: a limit before a failure before mere waiting."""
    rules = {blocked.rule for blocked in done.decision.plan.blocked}
    if "rollout/limits" in rules:
        return Ending.LIMIT
    return Ending.FAILED if "rollout/failed" in rules else Ending.WAITING
