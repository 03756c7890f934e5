"""How a stop goes on: withdraw, drain, signal, kill. Pure: which move is due now, and when to look again.

Real engines hang on the first SIGTERM with a request in flight, and swallow it while they start (facts/testbed.md):
so the drain comes before any signal, the signal is repeated, and a deadline with SIGKILL ends it.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING

from reconciler.engines.base import StopBehaviour

if TYPE_CHECKING:
    from reconciler.agent.records import StopRecord

COUNT_EVERY = 0.5
"""Seconds between two readings of the requests in flight: for most engines two in a row end a drain, which then costs
one second."""

UNKNOWN_ENGINE_STOP = StopBehaviour(repeat_after=timedelta(seconds=10), kill_after=timedelta(seconds=30))
"""For a replica whose engine this agent does not know any more: the slowest engine ends in ten seconds once idle."""


class StopMove(StrEnum):
    """What is due."""

    WAIT = "wait"
    COUNT = "count"
    """Ask how many requests are in flight."""
    INTEND = "intend"
    """The drain is over: record the intent to signal."""
    TERMINATE = "terminate"
    """SIGTERM to the leader."""
    KILL = "kill"
    """SIGKILL to the whole group."""


def stop_move(
    stop: StopRecord, behaviour: StopBehaviour, now: float, *, idle_readings: int, terminated: int
) -> tuple[StopMove, float]:
    """The move that is due, and after how many seconds to look again.

    `idle_readings` counts the last readings in a row that found nothing in flight; `terminated` the SIGTERMs that this
    agent process sent. After a restart of the agent that is 0, and one more is sent: better twice than never.
    """
    if stop.signalled_seconds_at is None:
        return _draining(stop, behaviour, now, idle_readings)
    elapsed = now - stop.signalled_seconds_at
    repeat_after, kill_after = behaviour.repeat_after.total_seconds(), behaviour.kill_after.total_seconds()
    if elapsed >= kill_after:
        return StopMove.KILL, 0.2
    due = 2 if elapsed >= repeat_after else 1
    if terminated < due:
        return StopMove.TERMINATE, 0.0
    next_due = repeat_after if due == 1 and repeat_after < kill_after else kill_after
    return StopMove.WAIT, next_due - elapsed


def readings_for(behaviour: StopBehaviour) -> int:
    """Readings in a row of nothing in flight that end a drain: the first and the last lie `idle_for` apart, or more."""
    return 1 + max(1, ceil(behaviour.idle_for.total_seconds() / COUNT_EVERY))


def _draining(stop: StopRecord, behaviour: StopBehaviour, now: float, idle_readings: int) -> tuple[StopMove, float]:
    if stop.withdrawn_seconds_at is None:
        return StopMove.INTEND, 0.0
    drain_begins = stop.withdrawn_seconds_at + stop.withdraw_delay.total_seconds()
    if now < drain_begins:
        return StopMove.WAIT, drain_begins - now
    if idle_readings >= readings_for(behaviour) or now >= drain_begins + stop.drain_timeout.total_seconds():
        return StopMove.INTEND, 0.0
    return StopMove.COUNT, COUNT_EVERY
