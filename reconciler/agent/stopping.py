"""The phases draining and stopping: the acts of a stop, until the whole process group is gone."""

from __future__ import annotations

import logging
from signal import SIGTERM
from typing import TYPE_CHECKING, assert_never

from reconciler.agent import ending, lifecycle, serving
from reconciler.agent.stop_moves import UNKNOWN_ENGINE_STOP, StopMove, stop_move

if TYPE_CHECKING:
    from reconciler.agent.records import StopRecord
    from reconciler.agent.replica import Replica

_log = logging.getLogger(__name__)


async def stop(replica: Replica, stop: StopRecord) -> float | None:
    """Take the next move of its stop; None when it is gone."""
    if not replica.alive():
        if replica.record.identity is not None:
            await replica.exit_of(replica.record.identity)  # takes the zombie away
        if ending.group_gone(replica):
            _log.info("%s: stopped", replica.record.id)
            replica.home.forget(replica.record.id)
            return None
        return ending.GROUP_CHECK
    engine, watch = replica.engine(), replica.watch
    behaviour = UNKNOWN_ENGINE_STOP if engine is None else engine.stop
    now = replica.now()
    move, pause = stop_move(
        stop, behaviour, now.seconds, idle_readings=watch.idle_readings, terminated=watch.terminated
    )
    match move:
        case StopMove.WAIT:
            pass
        case StopMove.COUNT if engine is not None:
            await serving.count(replica, engine)
        case StopMove.COUNT:
            pass  # nobody can ask it: the drain's deadline decides
        case StopMove.INTEND:
            replica.put(lifecycle.intends_signal(replica.record, now))
        case StopMove.TERMINATE:
            _terminate(replica)
        case StopMove.KILL:
            ending.kill_rest(replica)
        case unknown:
            assert_never(unknown)
    return pause


def _terminate(replica: Replica) -> None:
    identity = replica.record.identity
    if identity is not None:
        replica.tools.driver.signal(identity, SIGTERM)
        replica.watch.terminated += 1
        _log.info("%s: SIGTERM to pid %d", replica.record.id, identity.pid)
