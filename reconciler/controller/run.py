"""`run`: take each new commit that passes the gate, keep the fleet there, repair what dies; for ever.

One tick is a function, apart from the endless loop around it, so that it can be read and tested alone.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import anyio
import anyio.to_thread

from reconciler.controller.apply import LOOK_EVERY, attempting, in_flight
from reconciler.controller.attempt import Hearing, spent, wall_clock
from reconciler.controller.externals import Externals
from reconciler.controller.ground import ground
from reconciler.controller.standing import Ledger, prune_intents, read_standing, stamp
from reconciler.controller.state import record_aim
from reconciler.domain.intent import Intent, IntentKind
from reconciler.errors import ClaimRefused, StateError, flattened
from reconciler.fleet.executor import Outcome
from reconciler.fleet.resolving import look_up_unwaited
from reconciler.sources.watcher import look_again

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from reconciler.controller.aim import Aim
    from reconciler.controller.apply import Reporter
    from reconciler.controller.attempt import Attempts
    from reconciler.controller.commits import Commits
    from reconciler.controller.ground import Ground
    from reconciler.domain.assignment import Holder
    from reconciler.domain.desired import Desired
    from reconciler.fleet.observer import Observer

POLL_GIT = timedelta(seconds=30)
"""Hints from the file system are quick but can be lost; reading HEAD costs a millisecond."""

IDLE_WAIT = timedelta(seconds=30)
"""Long poll of a settled fleet: transitions are told at once anyway, only gauges wait."""

SOONEST = timedelta(milliseconds=50)
"""Between two passes: what is due in this instant is decided in the next, and never in a busy loop."""

HELD_RETRY = timedelta(seconds=2)
"""While another reconciler holds the fleet: soon after it ends, we go on."""

HELD_SAID_EVERY = timedelta(seconds=30)
"""As long as a claim lives: a person who waits sees that it goes on, and no page full of it."""

FAULT_RETRY = timedelta(seconds=5)
"""After a fault of our own in one pass: often enough to recover, seldom enough to read the log."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Hints:
    """Says that a commit may have happened; carries nothing else. A hint stays until it is taken, so none is lost."""

    _event: anyio.Event = field(default_factory=anyio.Event)

    def give(self) -> None:
        """There may be a commit."""
        self._event.set()

    async def follow(self, directory: Path) -> None:
        """Pass on the watcher's hints for ever."""
        async for _ in look_again(directory, POLL_GIT):
            self.give()

    async def follow_intents(self, state: Path) -> None:
        """Hint when a person added or withdrew an intent, for ever; one that cannot be listed is told by the pass."""
        seen: tuple[str, ...] | None = None
        while True:
            with suppress(StateError):
                now = stamp(state)
                if seen is not None and now != seen:
                    self.give()
                seen = now
            await anyio.sleep(LOOK_EVERY.total_seconds())

    async def next(self) -> None:
        """Wait for a hint and take it."""
        await self._event.wait()
        self._event = anyio.Event()


@dataclass(frozen=True, slots=True)
class Outside:
    """What the loop reaches beyond itself; a simulation brings nodes, a history and a clock of its own."""

    state: Path
    """The state directory."""
    reach: Callable[[Desired], Ground]
    """How the nodes of an inventory are reached."""
    aside: Callable[[Callable[[], object]], Awaitable[object]] = anyio.to_thread.run_sync
    """Runs what blocks, where it blocks nobody."""
    now: Callable[[], datetime] = wall_clock
    aimed: Callable[[Desired], None] = lambda _: None
    """Told before every pass what is wanted."""


async def run(commits: Commits, state: Path, holder: Holder, reporter: Reporter) -> None:
    """Until cancelled. Engines are left serving then: agents go on alone."""
    prune_intents(state, read_standing(state).intents, wall_clock())
    hints = Hints()
    externals = Externals(reporter.said)
    outside = Outside(state, partial(ground, state=state, may_start=True), aimed=externals.aimed)
    look_up_unwaited()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hints.follow, commits.directory, name="follow commits")
        tasks.start_soon(externals.follow, name="ask external models")
        tasks.start_soon(hints.follow_intents, state, name="follow intents")
        await keep_for_ever(commits, holder, reporter, hints, outside)


async def keep_for_ever(
    commits: Commits, holder: Holder, reporter: Reporter, hints: Hints, outside: Outside
) -> NoReturn:
    """Take every good commit and keep the fleet there, whoever else holds it for a while."""
    hearing = Hearing()
    said_at = -HELD_SAID_EVERY.total_seconds()
    await outside.aside(commits.look)
    await outside.aside(partial(commits.resume, outside.state))
    while True:
        if commits.aim is None:
            await hints.next()
            await outside.aside(commits.look)
            continue
        try:
            await _keep(commits, holder, reporter, hints, outside, hearing)
        except* ClaimRefused as group:
            if anyio.current_time() - said_at >= HELD_SAID_EVERY.total_seconds():
                said_at = anyio.current_time()
                reporter.said(f"waiting: {next(flattened(group))}")
            await anyio.sleep(HELD_RETRY.total_seconds())


async def _keep(
    commits: Commits, holder: Holder, reporter: Reporter, hints: Hints, outside: Outside, hearing: Hearing
) -> None:
    """Keep the fleet at the aim until a commit changes the inventory, which needs other connections."""
    aim, state = commits.aim, outside.state
    assert aim is not None  # noqa: S101  # the caller waits for one
    nodes = aim.desired.nodes
    here = outside.reach(aim.desired)
    ledger = Ledger(state, reporter.said)
    settled = False
    try:
        async with attempting(here, aim.desired.fleet.name, holder, LOOK_EVERY, hearing, outside.now) as attempts:
            _record(state, aim, holder, reporter, settled=False)
            while True:
                outside.aimed(aim.desired)
                within, settled = await _tick(attempts, aim, ledger, reporter, settled=settled)
                await wait_for_any(attempts.observer, hints, within)
                if await outside.aside(commits.look):
                    aim = commits.aim or aim
                    reporter.said(f"commit {(aim.sha or '')[:7]} passes the gate")
                    settled = False
                    if aim.desired.nodes != nodes:
                        return
                    _record(state, aim, holder, reporter, settled=False)
    finally:
        await here.fleet.close()


async def _tick(
    attempts: Attempts, aim: Aim, ledger: Ledger, reporter: Reporter, *, settled: bool
) -> tuple[timedelta, bool]:
    """One pass. How long to wait for news after it, and whether the fleet is as desired."""
    try:
        standing = ledger.read()
        intents = (retry_for(aim), *standing.intents)
        done = await attempts.once(standing.over(aim), intents, only=None)
        ledger.passed(aim.desired, done.observed, spent(aim, done, intents, attempts.now()))
    except ClaimRefused:
        raise
    except Exception:  # one reconcile: a fault in it must not end the loop; it is logged whole and tried again
        log.exception("this pass failed; trying again in %d s", FAULT_RETRY.total_seconds())
        return FAULT_RETRY, settled
    reporter.passed(done)
    for sent in done.sent:
        if sent.outcome is not Outcome.TAKEN:
            reporter.said(f"{sent.message}; trying again")
    if done.decision.settled and not settled:
        reporter.said(f"commit {(aim.sha or '')[:7]}: everything is as desired")
        _record(ledger.state, aim, attempts.claims.holder, reporter, settled=True)
    busy = bool(done.sent) or in_flight(done)
    attempts.observer.wait = LOOK_EVERY if busy else IDLE_WAIT
    calm = LOOK_EVERY if busy else IDLE_WAIT
    due = (done.decision.look_again_in, done.decision.expires_in, done.only_looks_for)
    return min([calm, *(max(each, SOONEST) for each in due if each is not None)]), done.decision.settled


def retry_for(aim: Aim) -> Intent:
    """What failed is tried again once for every new commit, and not before."""
    return Intent(
        id=f"commit-{aim.sha}",
        kind=IntentKind.COMMIT,
        author=aim.commit.author if aim.commit else "run",
        created_at=aim.commit.committed_at if aim.commit else datetime.now(UTC),  # noqa: TID251  # the shell
    )


async def wait_for_any(observer: Observer, hints: Hints, within: timedelta) -> None:
    """Until a node said something, a commit may have happened, or the time is over."""
    async with anyio.create_task_group() as tasks:

        async def commit() -> None:
            await hints.next()
            tasks.cancel_scope.cancel()

        tasks.start_soon(commit)
        await observer.changed(within)
        tasks.cancel_scope.cancel()


def _record(state: Path, aim: Aim, holder: Holder, reporter: Reporter, *, settled: bool) -> None:
    trouble = record_aim(state, aim.sha, settled=settled, by=holder) if aim.sha is not None else None
    if trouble is not None:
        reporter.said(f"note: {trouble}")
