"""The phase failed: a process that ended by itself, what is left of it, and the rest until it is launched again."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from reconciler.agent import lifecycle
from reconciler.agent.causes import why_ended
from reconciler.engines.base import Health

if TYPE_CHECKING:
    from reconciler.agent.replica import Replica

_log = logging.getLogger(__name__)

GROUP_CHECK = 0.05
"""Seconds between looks at a killed process group: the kernel frees a small engine in milliseconds."""

FOR_EVER = 3_600.0
"""Seconds between looks at what only an event can change; the event wakes it."""

LEADER_CHECK = 5.0
"""Seconds between looks at a leader that goes on without one of its ranks."""

LEADER_ANSWERS_WITHIN = timedelta(seconds=3)
"""As for any look at an engine that serves."""

STUBBORN_KILLS = 50
"""SIGKILLs without effect, some ten seconds, after which a person should know: it waits inside the kernel."""


async def ended(replica: Replica) -> float:
    """Its process is gone, or was never seen: failed, and what is left of its group is killed."""
    identity = replica.record.identity
    if identity is None:
        replica.fail("its launch was interrupted")
        return 0.0
    ending = await replica.exit_of(identity)
    if replica.record.stop is not None:
        return 0.0
    replica.kill_group()
    tools, entry = replica.tools, replica.record.entry
    why = partial(why_ended, entry, ending, config=tools.config, logs=tools.logs, support=tools.support)
    told = await anyio.to_thread.run_sync(why)  # a long log takes a good part of a second
    now = replica.record
    if now.stop is not None or now.identity != identity:
        return 0.0  # it was told something else meanwhile
    replica.fail(told)
    return GROUP_CHECK


async def rest(replica: Replica) -> float:
    """Failed: make sure that nothing of it is left, and launch it again when its time has come.

    A part of a replica over several nodes only once its leader does not serve: an engine never takes one of its ranks
    back. One that goes on answering without it is for the planner, which launches all parts again; the part stays
    failed, so that it is seen.
    """
    if not group_gone(replica):
        return GROUP_CHECK
    retry_at = replica.record.retry_seconds_at
    if retry_at is None:
        return FOR_EVER
    now = replica.now()
    if now.seconds < retry_at:
        return retry_at - now.seconds
    failed = replica.record
    if not replica.leads() and await _leader_serves(replica):
        return LEADER_CHECK
    if replica.record == failed:  # it was not told anything else meanwhile
        replica.put(lifecycle.again(failed, replica.now()))
    return 0.0


async def _leader_serves(replica: Replica) -> bool:
    engine = replica.engine()
    if engine is None:
        return False
    probe = engine.liveness()
    answer = await replica.ask(probe, LEADER_ANSWERS_WITHIN)
    return engine.judge(replica.record.entry.declaration, probe, answer).health is Health.OK


def leader_gone(replica: Replica) -> str:
    """Why a part is ended although its own process runs."""
    leader, seconds = replica.record.entry.placement.nodes[0], replica.leader_gone_for()
    return f"its leader on {leader} has not listened for {seconds:.0f} s; it is launched again with it"


def group_gone(replica: Replica) -> bool:
    """Whether nothing of its last launch is left; what is left is killed."""
    identity = replica.record.identity
    if identity is None:
        return True
    if replica.tools.driver.group_alive(identity):
        kill_rest(replica)
        return False
    replica.put(lifecycle.process_gone(replica.record))
    return True


def kill_rest(replica: Replica) -> None:
    """SIGKILL to its group, and words in the log the first time and when it does not help."""
    replica.kill_group()
    if replica.watch.kills == 1:
        _log.warning("%s: SIGKILL to its process group", replica.record.id)
    if replica.watch.kills == STUBBORN_KILLS:
        _log.error("%s: still there after %d SIGKILLs: it waits in the kernel", replica.record.id, STUBBORN_KILLS)
