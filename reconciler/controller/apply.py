"""`apply`: passes until the fleet is as the commit says, or until nothing more can be done without a person."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from reconciler.controller.attempt import Attempts, Hearing, spent, wall_clock
from reconciler.controller.claims import Claims, claiming
from reconciler.controller.heard import read_heard
from reconciler.domain.intent import Intent, IntentKind
from reconciler.domain.observed import ReplicaState
from reconciler.fleet.executor import Outcome
from reconciler.fleet.observer import observing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from reconciler.controller.aim import Aim
    from reconciler.controller.attempt import Pass
    from reconciler.controller.ground import Ground
    from reconciler.controller.standing import Ledger
    from reconciler.domain.assignment import Holder

LOOK_EVERY = timedelta(seconds=1)
"""While something is in flight: how old progress on the screen may be."""

HEAR_WITHIN = timedelta(seconds=25)
"""For the first look at all nodes: longer than a silent node takes to be called unreachable (15 s and a retry)."""

SILENCE_BORNE = timedelta(seconds=60)
"""For a node that answered and fell silent meanwhile: an agent that is started again, or that a start beside it leaves
no time (18 s were seen, of two cores with a load of 25), answers again within a minute."""

FRUITLESS_PASSES = 5
"""An agent may refuse, or be silent, once or twice while it and the plan catch up; five passes in a row that sent
something and changed nothing are a fault of the agent."""

_BEGINNING = frozenset({ReplicaState.PENDING, ReplicaState.STARTING})
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
async def attempting(
    ground: Ground,
    fleet_name: str,
    holder: Holder,
    wait: timedelta,
    hearing: Hearing | None = None,
    now: Callable[[], datetime] = wall_clock,
) -> AsyncIterator[Attempts]:
    """Observe every node and keep claims renewed for as long as the block runs; `hearing` goes on from an earlier."""
    hearing = hearing or Hearing()
    if ground.state is not None:
        hearing.heard_at.update(read_heard(ground.state) | hearing.heard_at)
    claims = Claims(ground.fleet, fleet_name, holder)
    watching = observing(ground.fleet, ground.inventory, wait, hearing.known, hearing.heard_at)
    async with claiming(claims), watching as observer:
        await observer.hear_all(HEAR_WITHIN)
        yield Attempts(ground.fleet, observer, claims, ground.inventory, hearing, now)


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
    ground: Ground,
    aim: Aim,
    holder: Holder,
    reporter: Reporter,
    stop: StopRequest,
    ledger: Ledger,
    *,
    only: str | frozenset[str] | None = None,
) -> Applied:
    """Pass after pass until an ending is reached. ClaimRefused when another reconciler holds the fleet."""
    once = retry_once(holder)
    fruitless = Fruitless()
    async with attempting(ground, aim.desired.fleet.name, holder, LOOK_EVERY) as attempts:
        while True:
            standing = ledger.read()
            intents = (once, *standing.intents)
            done = await attempts.once(standing.over(aim), intents, only=only, may_start=not stop.asked)
            ledger.passed(aim.desired, done.observed, spent(aim, done, intents, attempts.now()))
            reporter.passed(done)
            fruitless.count(done, attempts.claims, reporter)
            ending = _ending(done, stop, fruitless)
            if ending is not None:
                return Applied(ending, done)
            within = min(LOOK_EVERY, done.decision.look_again_in or LOOK_EVERY)
            await attempts.observer.changed(within)


def in_flight(done: Pass) -> bool:
    """Whether a replica of this fleet is starting, ending or loading adapters, so that waiting makes sense.

    A part that starts beside one that failed waits for it: nothing will come of that.
    """
    replicas = [replica for _, replica in done.observed.replicas()]
    failed = {replica.entry.id for replica in replicas if replica.state is ReplicaState.FAILED}
    return any(
        (replica.state in IN_FLIGHT and not (replica.state in _BEGINNING and replica.entry.id in failed))
        or (replica.lacks_adapters and replica.adapter_failure is None)
        for replica in replicas
    )


def fell_silent(done: Pass) -> bool:
    """Whether a node answered earlier and has not for a short while: it is likely to be back."""
    return any(node.silent_for is not None and node.silent_for < SILENCE_BORNE for node in done.observed.unreachable)


@dataclass(slots=True)
class Fruitless:
    """Counts passes in a row that had the same to send: refused, unanswered, or taken without effect."""

    passes: int = 0
    troubled: bool = False
    """Whether a node that answers would not be claimed: a fault, where a silent node is only waited for."""
    _orders: object = None

    def count(self, done: Pass, claims: Claims, reporter: Reporter) -> None:
        """Take a pass into account, and say what was in its way."""
        orders = {name: each.entries for name, each in done.decision.orders.items() if each.changes_something}
        again = bool(orders) and not done.attended and done.only_looks_for is None and orders == self._orders
        self._orders = orders
        self.passes = self.passes + 1 if again else 0
        for sent in done.sent:
            if sent.outcome is not Outcome.TAKEN:
                reporter.said(f"{sent.message}; trying again")
        heard = {node.name for node in done.observed.reachable}
        self.troubled = any(node in heard for node in claims.trouble_by_node)
        if again and not done.sent:
            for node, trouble in claims.trouble_by_node.items():
                if node in heard:
                    reporter.said(f"{trouble}; trying again")

    @property
    def are_too_many(self) -> bool:
        """Whether to give up."""
        return self.passes >= FRUITLESS_PASSES


def _ending(done: Pass, stop: StopRequest, fruitless: Fruitless) -> Ending | None:
    """Whether there is nothing left to do or to wait for."""
    if stop.asked:
        return None if in_flight(done) else Ending.INTERRUPTED
    if done.attended:
        return None
    if done.decision.settled:
        return Ending.DONE
    if fruitless.are_too_many:
        return Ending.WAITING if done.held_back and not fruitless.troubled else Ending.FAILED
    due = any(orders.changes_something for orders in done.decision.orders.values())
    if due or done.sent or in_flight(done) or fell_silent(done) or done.decision.look_again_in is not None:
        return None
    return stuck(done)


def stuck(done: Pass) -> Ending:
    """The exit code for what blocks: a limit before a failure before mere waiting."""
    rules = {blocked.rule for blocked in done.decision.plan.blocked}
    if "rollout/limits" in rules:
        return Ending.LIMIT
    return Ending.FAILED if "rollout/failed" in rules else Ending.WAITING
