"""The phase failed: a process that ended by itself, what is left of it, and the rest until it is launched again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reconciler.agent import lifecycle
from reconciler.agent.causes import why_ended

if TYPE_CHECKING:
    from reconciler.agent.replica import Replica

_log = logging.getLogger(__name__)

GROUP_CHECK = 0.05
"""Seconds between looks at a killed process group: the kernel frees a small engine in milliseconds."""

FOR_EVER = 3_600.0
"""Seconds between looks at what only an event can change; the event wakes it."""

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
    replica.fail(why_ended(entry, ending, logs=tools.logs, secrets=tools.config.secrets, support=tools.support))
    return GROUP_CHECK


def rest(replica: Replica) -> float:
    """Failed: make sure that nothing of it is left, and launch it again when its time has come."""
    if not group_gone(replica):
        return GROUP_CHECK
    retry_at = replica.record.retry_seconds_at
    if retry_at is None:
        return FOR_EVER
    now = replica.now()
    if now.seconds < retry_at:
        return retry_at - now.seconds
    replica.put(lifecycle.again(replica.record, now))
    return 0.0


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
