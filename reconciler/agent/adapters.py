"""Adapters of an engine that serves: what it lists is held against what its replica should have, and made so.

Nothing here ends a replica: an adapter that cannot be loaded is said in the observation and tried again.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio.to_thread

from reconciler.agent.plain import plain
from reconciler.engines.openai_answers import error_message
from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reconciler.agent.replica import Replica
    from reconciler.domain.declaration import DeclaredAdapter
    from reconciler.engines.base import EngineSupport, Probe

_log = logging.getLogger(__name__)

LIST_TIMEOUT = timedelta(seconds=5)

LOAD_TIMEOUT = timedelta(minutes=2)
"""A rank-64 adapter of a 70B model is 1.6 GiB, read from a disk that others read too."""

RETRY = 60.0
"""Seconds until an adapter that could not be loaded is tried again: somebody may have put its files right."""


async def keep_adapters(replica: Replica, engine: EngineSupport) -> None:
    """Load what is missing and take out what is not wanted, where that is due; then look at its list again.

    The list is read once an engine has started, whenever other adapters are wanted, and after each change.
    """
    probe = engine.adapters()
    if probe is None or not replica.leads() or not _is_due(replica):
        return
    watch, wanted = replica.watch, replica.record.entry.declaration.adapters
    listed = await _listed(replica, engine, probe)
    if listed is None:
        return  # silent, or it does not tell; the next look asks again
    failure: str | None = None
    if replica.record.entry.declaration.loads_adapters:
        failure = await _change(replica, engine, listed)
        listed = await _listed(replica, engine, probe)
    if listed is None or wanted != replica.record.entry.declaration.adapters:
        return
    had = _by_name(replica.record.adapters)
    found = tuple(each for each in wanted if each.name in listed and had.get(each.name) == each)
    missing = [each.name for each in wanted if each not in found]
    if missing and failure is None:
        failure = f"the engine does not list the adapter {', '.join(missing)}"
    watch.adapters_for = wanted
    watch.adapters_again_at = None if failure is None else replica.now().seconds + RETRY
    _report(replica, found, failure)


def _is_due(replica: Replica) -> bool:
    """Whether what it lists has not been held against what is wanted, or was found wanting some time ago."""
    watch, wanted = replica.watch, replica.record.entry.declaration.adapters
    if watch.adapters_for is None:
        return bool(wanted)
    again_at = watch.adapters_again_at
    return watch.adapters_for != wanted or (again_at is not None and replica.now().seconds >= again_at)


async def _change(replica: Replica, engine: EngineSupport, listed: frozenset[str]) -> str | None:
    """Take out first, since that makes room. Why something could not be done; None where all of it was."""
    declaration, failures = replica.record.entry.declaration, []
    wanted, had = _by_name(declaration.adapters), _by_name(replica.record.adapters)
    stale = {name for name in listed if name not in wanted or had.get(name) != wanted[name]}
    for name in sorted(stale):
        why = await _tell(replica, engine.unload_adapter(declaration, name))
        if why is None:
            _remember(replica, (each for each in replica.record.adapters if each.name != name))
            _log.info("%s: adapter %s is taken out", replica.record.id, name)
        else:
            failures.append(f"the adapter {name} cannot be taken out: {why}")
    for adapter in declaration.adapters:
        if adapter.name in listed - stale:
            continue
        why = await _load(replica, engine, adapter)
        if why is None:
            _remember(replica, (*(each for each in replica.record.adapters if each.name != adapter.name), adapter))
            _log.info("%s: adapter %s is loaded", replica.record.id, adapter.name)
        else:
            failures.append(f"the adapter {adapter.name} cannot be loaded: {why}")
    return "; ".join(failures) or None


async def _load(replica: Replica, engine: EngineSupport, adapter: DeclaredAdapter) -> str | None:
    try:
        path = await anyio.to_thread.run_sync(partial(replica.tools.locate, adapter.source))
    except ReconcilerError as error:
        return error.message
    return await _tell(replica, engine.load_adapter(replica.record.entry.declaration, adapter.name, str(path)))


async def _tell(replica: Replica, probe: Probe | None) -> str | None:
    """Send one request that changes it; why it did not work, None when it did."""
    if probe is None:
        return "this engine takes none while it serves"
    answer = await replica.ask(probe, LOAD_TIMEOUT)
    if answer.status == HTTPStatus.OK:
        return None
    return "no answer" if answer.status is None else plain(error_message(answer.body))


async def _listed(replica: Replica, engine: EngineSupport, probe: Probe) -> frozenset[str] | None:
    return engine.read_adapters(await replica.ask(probe, LIST_TIMEOUT))


def _remember(replica: Replica, adapters: Iterable[DeclaredAdapter]) -> None:
    """Write down from which source each was loaded, which no engine lists."""
    replica.put(replica.record.model_copy(update={"adapters": tuple(adapters)}))


def _report(replica: Replica, found: tuple[DeclaredAdapter, ...], failure: str | None) -> None:
    gauges = replica.watch.gauges
    if failure is not None and failure != gauges.adapter_failure:
        _log.warning("%s: %s", replica.record.id, failure)
    if (found, failure) != (gauges.adapters, gauges.adapter_failure):
        gauges.adapters, gauges.adapter_failure = found, failure
        replica.home.changed()


def _by_name(adapters: Iterable[DeclaredAdapter]) -> Mapping[str, DeclaredAdapter]:
    return {each.name: each for each in adapters}
