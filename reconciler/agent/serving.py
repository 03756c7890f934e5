"""The phases ready and unhealthy: does it still answer, and how many requests are in flight."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.agent import ending, lifecycle
from reconciler.agent.adapters import keep_adapters
from reconciler.agent.plain import plain
from reconciler.domain.observed import ReplicaState
from reconciler.engines.base import Answer, Health

if TYPE_CHECKING:
    from reconciler.agent.replica import Replica
    from reconciler.engines.base import EngineSupport, Probe

_log = logging.getLogger(__name__)

LIVENESS_EVERY = 5.0
"""Seconds. With three misses a hung engine is out of routing within 25 s; a probe and a gauge cost about 5 ms."""

LIVENESS_TIMEOUT = timedelta(seconds=3)
MISSES_UNTIL_UNHEALTHY = 3

TOKEN_EVERY = 30.0
"""Seconds in which the loss of a rank is noticed while nobody sends requests; two tokens a minute cost nothing."""

TOKEN_TIMEOUT = timedelta(seconds=10)
"""As at the start: the first token of a large model on CPUs takes seconds."""

UNHEALTHY_UNTIL_KILLED = 60.0
"""Seconds: longer than a garbage collection, a graph capture or a swapped-out process takes to come back."""


async def serve(replica: Replica) -> float:
    """Ready or unhealthy: out of routing after three misses, in again when it answers, killed after a silent minute.

    Where an engine only computes its leader is asked. One that is silent is for the leader's own agent to end, and may
    be cut off from this node alone; one on whose port nothing listens is gone, and with it what this waits for.
    """
    engine = replica.engine()
    if engine is None or not replica.alive():
        return await ending.ended(replica)
    probe, within = _question(replica, engine)
    declaration = replica.record.entry.declaration
    answer = await replica.ask(probe, within)
    verdict = engine.judge(declaration, probe, answer)
    await count(replica, engine, asks=answer.status is not None or within == TOKEN_TIMEOUT)
    if verdict.health is Health.OK:
        await keep_adapters(replica, engine)
    if replica.record.stop is not None or not replica.alive():
        return 0.0
    replica.tools.logs.bound(replica.record.id)
    watch = replica.watch
    watch.misses = 0 if verdict.health is Health.OK else watch.misses + 1
    now = replica.now()
    if replica.record.state is ReplicaState.UNHEALTHY:
        if watch.misses == 0:
            _log.info("%s: answers again", replica.record.id)
            replica.put(lifecycle.recovered(replica.record, now))
        elif now.seconds - replica.record.state_seconds_at >= UNHEALTHY_UNTIL_KILLED:
            if replica.leads():
                return replica.kill(f"stopped answering for {UNHEALTHY_UNTIL_KILLED:.0f} s and was killed")
            if replica.leader_gone_for() >= UNHEALTHY_UNTIL_KILLED:
                return replica.kill(ending.leader_gone(replica))
    elif watch.misses >= MISSES_UNTIL_UNHEALTHY:
        _log.warning("%s: no answer to %d probes: %s", replica.record.id, watch.misses, plain(verdict.detail))
        replica.put(lifecycle.unhealthy(replica.record, now))
    else:
        replica.put(lifecycle.served(replica.record, now))
    return LIVENESS_EVERY


def _question(replica: Replica, engine: EngineSupport) -> tuple[Probe, timedelta]:
    """What to ask now, and how long to wait for the answer: usually whether it is well, which costs nothing.

    One that leads others says so also when a rank of it is gone (vLLM 0.32: until the first request, which fails, and
    then it ends). So as long as nobody asks anything it is asked for a token now and then; never while it is busy,
    when a token may take its time.
    """
    watch, entry, now = replica.watch, replica.record.entry, replica.now().seconds
    asks = lifecycle.is_part(entry) and replica.leads() and watch.gauges.idle_since is not None
    if asks and (watch.misses or watch.token_at is None or now - watch.token_at >= TOKEN_EVERY):
        watch.token_at = now
        return engine.readiness(entry.declaration)[-1], TOKEN_TIMEOUT
    return engine.liveness(), LIVENESS_TIMEOUT


async def count(replica: Replica, engine: EngineSupport, *, asks: bool = True) -> None:
    """Read how many requests are in flight; not known is not nothing.

    Except where a part that only computes is being stopped and its leader is silent: that was stopped first.
    Without `asks` it is not known: one that just kept silent is not waited for a second time.
    """
    answer = await replica.ask(engine.load(), LIVENESS_TIMEOUT) if asks else Answer(None)
    in_flight = engine.read_load(answer)
    watch = replica.watch
    watch.gauges.running = None if in_flight is None else in_flight.running
    watch.gauges.waiting = None if in_flight is None else in_flight.waiting
    idle = in_flight is not None and in_flight.running + in_flight.waiting == 0
    if answer.status is None and replica.record.stop is not None and not replica.leads():
        idle = True
    watch.idle_readings = watch.idle_readings + 1 if idle else 0
    if not idle:
        watch.gauges.idle_since = None
    elif watch.gauges.idle_since is None:
        watch.gauges.idle_since = replica.now().seconds
