"""`run`: take each new commit that passes the gate, keep the fleet there, repair what dies; for ever.

One tick is a function, apart from the endless loop around it, so that it can be read and tested alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from reconciler.controller.apply import LOOK_EVERY, attempting, in_flight
from reconciler.controller.ground import ground
from reconciler.controller.state import record_aim
from reconciler.domain.intent import Intent, IntentKind
from reconciler.errors import ClaimRefused, flattened
from reconciler.fleet.executor import Outcome
from reconciler.sources.watcher import look_again

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.controller.aim import Aim
    from reconciler.controller.apply import Reporter
    from reconciler.controller.attempt import Attempts
    from reconciler.controller.commits import Commits
    from reconciler.domain.assignment import Holder
    from reconciler.fleet.observer import Observer

POLL_GIT = timedelta(seconds=30)
"""Hints from the file system are quick but can be lost; reading HEAD costs a millisecond."""

IDLE_WAIT = timedelta(seconds=30)
"""Long poll of a settled fleet: transitions are told at once anyway, only gauges wait."""

HELD_RETRY = timedelta(seconds=2)
"""While another reconciler holds the fleet: soon after it ends, we go on."""

FAULT_RETRY = timedelta(seconds=5)
"""After a fault of our own in one pass: often enough to recover, seldom enough to read the log."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Hints:
    """Says that a commit may have happened; carries nothing else. A hint stays until it is taken, so none is lost."""

    _event: anyio.Event = field(default_factory=anyio.Event)

    async def follow(self, directory: Path) -> None:
        """Pass on the watcher's hints for ever."""
        async for _ in look_again(directory, POLL_GIT):
            self._event.set()

    async def next(self) -> None:
        """Wait for a hint and take it."""
        await self._event.wait()
        self._event = anyio.Event()


async def run(commits: Commits, state: Path, holder: Holder, reporter: Reporter) -> None:
    """Until cancelled. Engines are left serving then: agents go on alone."""
    hints = Hints()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hints.follow, commits.directory, name="follow commits")
        await anyio.to_thread.run_sync(commits.look)
        await anyio.to_thread.run_sync(commits.resume, state)
        while True:
            if commits.aim is None:
                await hints.next()
                await anyio.to_thread.run_sync(commits.look)
                continue
            try:
                await _keep(commits, state, holder, reporter, hints)
            except* ClaimRefused as group:
                reporter.said(f"waiting: {next(flattened(group))}")
                await anyio.sleep(HELD_RETRY.total_seconds())


async def _keep(commits: Commits, state: Path, holder: Holder, reporter: Reporter, hints: Hints) -> None:
    """Keep the fleet at the aim until a commit changes the inventory, which needs other connections."""
    aim = commits.aim
    assert aim is not None  # noqa: S101  # the caller waits for one
    nodes = aim.desired.nodes
    here = ground(aim.desired, state, may_start=True)
    settled = False
    try:
        async with attempting(here, aim.desired.fleet.name, holder, LOOK_EVERY) as attempts:
            _record(state, aim, reporter, settled=False)
            while True:
                within, settled = await _tick(attempts, aim, state, reporter, settled=settled)
                await wait_for_any(attempts.observer, hints, within)
                if await anyio.to_thread.run_sync(commits.look):
                    aim = commits.aim or aim
                    reporter.said(f"commit {(aim.sha or '')[:7]} passes the gate")
                    settled = False
                    if aim.desired.nodes != nodes:
                        return
                    _record(state, aim, reporter, settled=False)
    finally:
        await here.fleet.close()


async def _tick(
    attempts: Attempts, aim: Aim, state: Path, reporter: Reporter, *, settled: bool
) -> tuple[timedelta, bool]:
    """One pass. How long to wait for news after it, and whether the fleet is as desired."""
    try:
        done = await attempts.once(aim, (retry_for(aim),), only=None)
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
        _record(state, aim, reporter, settled=True)
    busy = bool(done.sent) or in_flight(done)
    attempts.observer.wait = LOOK_EVERY if busy else IDLE_WAIT
    calm = LOOK_EVERY if busy else IDLE_WAIT
    return min(calm, done.decision.look_again_in or calm), done.decision.settled


def retry_for(aim: Aim) -> Intent:
    """What failed is tried again once for every new commit, and not before."""
    return Intent(
        id=f"commit-{aim.sha}",
        kind=IntentKind.RETRY,
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


def _record(state: Path, aim: Aim, reporter: Reporter, *, settled: bool) -> None:
    trouble = record_aim(state, aim.sha, settled=settled) if aim.sha is not None else None
    if trouble is not None:
        reporter.said(f"note: {trouble}")
