"""The phases draining and stopping: the acts of a stop, until the whole process group is gone."""

from __future__ import annotations

import logging
from signal import SIGTERM
from typing import TYPE_CHECKING, assert_never

from reconciler.agent import ending, freeing, lifecycle, serving
from reconciler.agent.stop_moves import UNKNOWN_ENGINE_STOP, StopMove, stop_move

if TYPE_CHECKING:
    from reconciler.agent.records import StopRecord
    from reconciler.agent.replica import Replica
    from reconciler.engines.base import EngineSupport

_log = logging.getLogger(__name__)


async def stop(replica: Replica, stop: StopRecord) -> float | None:
    """Take the next move of its stop; None when it is gone."""
    if not replica.alive():
        return await _bury(replica)
    engine, watch = replica.engine(), replica.watch
    behaviour = UNKNOWN_ENGINE_STOP if engine is None else engine.stop
    if stop.unproven:
        return await _prove(replica, engine)
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


async def _bury(replica: Replica) -> float | None:
    """Its leader is gone: None once nothing of it is left."""
    if replica.record.identity is not None:
        await replica.exit_of(replica.record.identity)  # takes the zombie away
    if not ending.group_gone(replica):
        return ending.GROUP_CHECK
    # Gone is what the planner places the next one on: its GPUs are to be measured free first, unless one waits here.
    if replica.home.gpu_holder(replica.record, ()) is None and await freeing.busy(replica) is not None:
        return freeing.LOOK_AGAIN
    _log.info("%s: stopped", replica.record.id)
    replica.home.forget(replica.record.id)
    return None


async def _prove(replica: Replica, engine: EngineSupport | None) -> float:
    """Whether one that was taken over serves: what tells its load is drained, what does not is signalled at once."""
    if engine is not None:
        await serving.count(replica, engine)
    if not replica.alive():
        return 0.0
    serves = replica.watch.gauges.running is not None
    replica.put(lifecycle.drains(replica.record) if serves else lifecycle.intends_signal(replica.record, replica.now()))
    return 0.0


def _terminate(replica: Replica) -> None:
    identity = replica.record.identity
    if identity is not None:
        replica.tools.driver.signal(identity, SIGTERM)
        replica.watch.terminated += 1
        _log.info("%s: SIGTERM to pid %d", replica.record.id, identity.pid)
