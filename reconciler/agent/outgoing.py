"""Engines that are ended without an agent: SIGTERM, again, SIGKILL to the group, all of them at the same time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

from reconciler.agent.drivers.process import ProcessDriver
from reconciler.agent.records import StopRecord
from reconciler.agent.stop_moves import StopMove, stop_move
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.agent.drivers.base import ProcessIdentity
    from reconciler.engines.base import StopBehaviour

LOOK_EVERY = 0.05

KILLED_WITHIN = 10.0
"""Seconds after SIGKILL: only a process that waits inside the kernel, for a driver or a disk, takes longer."""


@dataclass(slots=True)
class Outgoing:
    """One engine on its way out."""

    name: str
    identity: ProcessIdentity
    behaviour: StopBehaviour
    terminated: int = 0
    killed: bool = False
    said: str = ""
    """How it went, once it is gone."""


def end_processes(outgoing: Sequence[Outgoing]) -> list[str]:
    """Signal all of them and wait until every group is gone: how each went, without those that were gone already.

    AgentError names those that will not go.
    """
    driver, began = ProcessDriver(), time.monotonic()
    left = [each for each in outgoing if driver.group_alive(each.identity)]
    while left:
        seconds = time.monotonic() - began
        for each in left:
            _advance(each, driver, began, seconds)
        left = [each for each in left if not each.said]
        stubborn = [each.name for each in left if seconds > each.behaviour.kill_after.total_seconds() + KILLED_WITHIN]
        if stubborn:
            raise AgentError(
                f"{', '.join(stubborn)} did not end {KILLED_WITHIN:.0f} s after SIGKILL: it waits in the kernel",
                hint="look at its driver or disk; a reboot ends it",
            )
        time.sleep(LOOK_EVERY)
    return [each.said for each in outgoing if each.said]


def _advance(each: Outgoing, driver: ProcessDriver, began: float, seconds: float) -> None:
    if not driver.group_alive(each.identity):
        how = "killed" if each.killed else "stopped"
        each.said = f"{each.name} {how} after {seconds:.1f} s (pid {each.identity.pid})"
        return
    stop = StopRecord(withdraw_delay=timedelta(), drain_timeout=timedelta(), signalled_seconds_at=began)
    move, _ = stop_move(stop, each.behaviour, began + seconds, idle_readings=0, terminated=each.terminated)
    if move is StopMove.TERMINATE and driver.alive(each.identity):
        driver.signal(each.identity, SIGTERM)
        each.terminated += 1
    elif move is StopMove.KILL or not driver.alive(each.identity):
        driver.signal_group(each.identity, SIGKILL)
        each.killed = each.killed or move is StopMove.KILL
