"""The phases pending and starting: from an accepted entry to an engine that answers a token."""

from __future__ import annotations

import itertools
import logging
import os
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from reconciler.agent import ending, freeing, launching, lifecycle
from reconciler.agent.adapters import keep_adapters
from reconciler.agent.drivers.base import StartFailed
from reconciler.agent.journal import JournalUnwritable, file_stem
from reconciler.agent.plain import plain
from reconciler.agent.recovery import choose, with_process
from reconciler.engines.base import Health, Paths, Verdict
from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.agent.processes import Running
    from reconciler.agent.replica import Replica
    from reconciler.engines.base import EngineSupport

_log = logging.getLogger(__name__)

FIRST_PROBE = 0.2
"""Seconds between looks at a starting engine: llama.cpp with a small model is up in half a second."""

SLOWEST_PROBE = 2.0
"""Seconds, after backing off: engines that load for minutes are not disturbed, and nobody notices two seconds."""

BACK_OFF = 1.3
"""Nine looks from the first pause to the slowest, over nine seconds."""

WAIT_FOR_GPUS = 1.0
"""Seconds; the end of the replica that holds them wakes it earlier."""

JOURNAL_RETRY = 5.0
"""Seconds until a launch is tried again that could not be written down first."""

WRONG_GRACE = 10.0
"""Seconds that an engine may answer wrongly while it starts: a name can be registered after the port opens."""

READINESS_TIMEOUT = timedelta(seconds=10)
"""The first token of a large model on CPUs takes seconds."""


async def launch(replica: Replica) -> float:
    """Pending: start the process once its GPUs are free, or take it over when it runs already."""
    if not ending.group_gone(replica):
        return ending.GROUP_CHECK
    running = await anyio.to_thread.run_sync(replica.tools.running)
    if replica.record.stop is not None:
        return 0.0
    if found := running.get(file_stem(replica.record.id)):
        return _take_over(replica, found)
    holder = replica.home.gpu_holder(replica.record, itertools.chain.from_iterable(running.values()))
    if holder is not None:
        replica.say(f"waiting for {holder} to free its GPUs")
        return WAIT_FOR_GPUS
    if (busy := await freeing.busy(replica)) is not None:
        replica.say("waiting for its GPUs to be free", busy)
        return freeing.LOOK_AGAIN
    if replica.record.stop is not None:
        return 0.0
    try:
        await _prepare_and_start(replica)
    except JournalUnwritable as error:
        replica.say(error.message)
        return JOURNAL_RETRY
    except ReconcilerError as error:
        replica.fail(error.message if error.hint is None else f"{error.message}; {error.hint}")
        return 0.0
    return FIRST_PROBE


def _take_over(replica: Replica, found: Sequence[Running]) -> float:
    """An engine writes into its log and no record knows of it: it is this replica; a second one must not start."""
    kept = choose(found, None)
    host = replica.tools.config.engine_host
    replica.adopt(with_process(replica.record, kept, replica.now(), host))
    _log.warning("%s: runs already as pid %d, without a record: taken over", replica.record.id, kept.identity.pid)
    return 0.0


async def _prepare_and_start(replica: Replica) -> None:
    """Find all that the launch needs, write it down, start; ReconcilerError says what is missing."""
    tools, entry = replica.tools, replica.record.entry
    launching.own_rank(entry, tools.config.node)
    freeing.no_strangers(replica)
    engine, command = launching.engine_command(entry.declaration.engine, tools.config, tools.support)
    weights = await anyio.to_thread.run_sync(partial(launching.locate_weights, entry, tools.locate))
    if replica.record.stop is not None:
        return
    taken = replica.home.ports_taken(entry.id)
    port = launching.choose_port(entry, tools.config, taken, replica.record.port)
    log, cores = tools.logs.path(entry.id), _cores(replica)
    prepared = launching.prepare(
        entry,
        tools.config,
        engine,
        command,
        weights,
        port=port,
        log=log,
        environment=tools.environment,
        cores=cores,
        inventory=tools.gpus.seen(),
    )
    record = lifecycle.launching(replica.record, port, prepared.url, replica.now(), cores=cores)
    replica.home.save(record)
    replica.record = record
    tools.logs.rotate(entry.id)
    replica.watch = replica.fresh_watch()
    if replica.leads():  # else another node's files are behind the answers
        adapters = {name: str(path) for name, path in weights.adapters.items()}
        replica.watch.paths = Paths(str(weights.model), adapters)
    with anyio.CancelScope(shield=True):  # the agent must not end between the start and its record
        try:
            identity = await tools.driver.start(prepared.spec)
        except StartFailed as error:
            replica.fail(error.message)
            return
        replica.put(lifecycle.launched(replica.record, identity))
    _log.info("%s: started as pid %d on port %d", entry.id, identity.pid, port)


def _cores(replica: Replica) -> tuple[int, ...]:
    declared, config = replica.record.entry.declaration, replica.tools.config
    taken = replica.home.cores_taken(replica.record.id)
    return launching.deal_cores(declared.cpu_cores, config.cpu_cores, sorted(os.sched_getaffinity(0)), taken)


async def start(replica: Replica) -> float:
    """Starting: ready when every readiness probe is answered well; failed when it ends, answers wrongly or hangs."""
    engine = replica.engine()
    if engine is None or not replica.alive():
        return await ending.ended(replica)
    for line in replica.watch.log.new_lines():
        step = engine.read_progress(plain(line))
        if step is not None:
            replica.say(step.stage, step.words)
    verdict = await _readiness(replica, engine)
    replica.watch.looks += 1
    if replica.record.stop is not None or not replica.alive():
        return 0.0
    if verdict.health is Health.OK:
        await keep_adapters(replica, engine)
        return _ready(replica)
    why = _hopeless(replica, verdict)
    if why is not None:
        return replica.kill(why)
    pause = replica.watch.probe_pause
    replica.watch.probe_pause = min(pause * BACK_OFF, SLOWEST_PROBE)
    return pause


def _hopeless(replica: Replica, verdict: Verdict) -> str | None:
    """Why to wait no longer; None while it may still become ready.

    What only computes is as well as its leader: when that has waited for too long, its own agent says so. One that
    served before is ended here as well where no leader has listened for as long as that: it may wait for the process
    that led when it was launched.
    """
    watch, now = replica.watch, replica.now().seconds
    allowed = replica.record.entry.ready_timeout.total_seconds()
    if not replica.leads():
        lost = min(replica.leader_gone_for(), now - watch.progress_at) >= allowed
        return ending.leader_gone(replica) if lost and replica.home.was_ready(replica.record.entry.digest) else None
    if verdict.health is Health.WRONG:
        watch.wrong_since = now if watch.wrong_since is None else watch.wrong_since
        watch.wrong = f"it answers, and not as this replica should: {verdict.detail}"
        if now - watch.wrong_since >= WRONG_GRACE:
            return watch.wrong
    else:
        watch.wrong_since = watch.wrong = None
    if verdict.health is Health.LOADING and watch.gauges.stage is None:
        replica.say(verdict.detail or "loading")
    if now - watch.progress_at >= allowed:
        told = ", ".join(each for each in (watch.gauges.stage, watch.gauges.progress) if each)
        seen = told or verdict.detail or "no answer"
        return watch.wrong or f"not ready, and no progress for {allowed:.0f} s ({seen})"
    return None


async def _readiness(replica: Replica, engine: EngineSupport) -> Verdict:
    """The verdict on the readiness probes, in order, up to the first that is not OK."""
    declaration, paths = replica.record.entry.declaration, replica.watch.paths
    verdict = Verdict(Health.SILENT)
    for probe in engine.readiness(declaration):
        verdict = engine.judge(declaration, probe, await replica.ask(probe, READINESS_TIMEOUT), paths)
        if verdict.health is not Health.OK:
            break
    return verdict


def _ready(replica: Replica) -> float:
    """It answers, and has its adapters; meanwhile it may have ended, or been told to."""
    record = replica.record
    if record.stop is not None or not replica.alive():
        return 0.0
    if replica.watch.adopted and replica.watch.looks == 1:  # it was ready before we asked; since when, nobody saw
        record = record.model_copy(update={"launched_seconds_at": None})
    record = lifecycle.became_ready(record, replica.now())
    replica.home.became_ready(record)  # first: what was ever ready is restarted, even by the next agent
    replica.put(record)
    seconds = "taken over" if record.launched_seconds_at is None else f"after {record.load_seconds} s"
    _log.info("%s: ready, %s, on %s", record.id, seconds, record.url)
    return 0.0
