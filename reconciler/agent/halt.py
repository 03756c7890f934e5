"""`reconciler agent stop`: ends the local agent, and with `engines` everything it started."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

from reconciler.agent import lifecycle
from reconciler.agent.clock import SystemClock
from reconciler.agent.config import agent_directory
from reconciler.agent.drivers.process import ProcessDriver, machine_boot_id
from reconciler.agent.journal import Journal, JournalUnwritable
from reconciler.agent.lock import holding_lock, is_locked, lock_holder
from reconciler.agent.outgoing import KILLED_WITHIN, LOOK_EVERY, Outgoing, end_processes
from reconciler.agent.processes import running_engines
from reconciler.agent.recovery import recover
from reconciler.agent.stop_moves import UNKNOWN_ENGINE_STOP
from reconciler.domain.assignment import StopEntry
from reconciler.engines.registry import support
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.agent.lock import LockHolder
    from reconciler.agent.records import ReplicaRecord
    from reconciler.agent.recovery import Recovered
    from reconciler.engines.base import StopBehaviour

_log = logging.getLogger(__name__)

AGENT_ENDS_WITHIN = 10.0
"""Seconds: two for its last answers, and much for a busy machine; then it is killed, which it is made to survive."""


def stop_agent(state_dir: Path, *, engines: bool) -> list[str]:
    """End the agent of this state directory; with `engines` also every engine it holds, at once and without a drain.

    Works whether or not an agent runs. Says what it did, one clause a line. AgentError when something would not end.
    """
    did = end_agent(state_dir)
    if engines and agent_directory(state_dir).is_dir():
        did += _stop_engines(state_dir)
    return did


def end_agent(state_dir: Path) -> list[str]:
    """End the agent and leave its engines; returns once its process is gone and its lock is free."""
    if not is_locked(state_dir):
        return ["no agent was running"]
    driver, holder = ProcessDriver(), lock_holder(state_dir)
    if holder is None:
        raise AgentError(f"a process that is no agent holds the lock in {agent_directory(state_dir)}")
    driver.signal(holder.identity, SIGTERM)
    if not _ended_within(AGENT_ENDS_WITHIN, state_dir, driver, holder):
        driver.signal(holder.identity, SIGKILL)
        if not _ended_within(KILLED_WITHIN, state_dir, driver, holder):
            raise AgentError(f"the agent (pid {holder.identity.pid}) does not end, not even by SIGKILL")
    return [f"agent stopped (pid {holder.identity.pid})"]


def _ended_within(seconds: float, state_dir: Path, driver: ProcessDriver, holder: LockHolder) -> bool:
    deadline = time.monotonic() + seconds
    while driver.alive(holder.identity) or is_locked(state_dir):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_EVERY)
    return True


def _stop_engines(state_dir: Path) -> list[str]:
    directory = agent_directory(state_dir)
    with holding_lock(state_dir, listen="nothing: it stops the engines"):
        journal, running = Journal(directory), running_engines(directory / "logs")
        moment, boot_id = SystemClock().read(), machine_boot_id()
        recovered = recover(journal.open(), running, moment, boot_id=boot_id, host="127.0.0.1")
        _record_intent(recovered, journal)
        stopping = [
            Outgoing(record.id, record.identity, _behaviour(record))
            for _, record in sorted(recovered.replicas.items())
            if record.identity is not None
        ]
        held = {each.identity for each in stopping}
        orphans = (running[stem] for stem in sorted(running) if running[stem].identity not in held)
        stopping += [Outgoing(each.command, each.identity, UNKNOWN_ENGINE_STOP) for each in orphans]
        said = end_processes(stopping)
        for replica_id in recovered.replicas:
            journal.remove_replica(replica_id)
    return said or ["no engine was running"]


def _record_intent(recovered: Recovered, journal: Journal) -> None:
    """Before the first signal: whatever interrupts us, no agent starts again what a person stopped."""
    moment = SystemClock().read()
    try:
        journal.save_node(recovered.node.model_copy(update={"assignment": None}))
        for record in recovered.replicas.values():
            at_once = StopEntry(id=record.id, withdraw_delay=timedelta(), drain_timeout=timedelta())
            journal.save_replica(lifecycle.intends_signal(lifecycle.withdrawn(record, at_once, moment), moment))
    except JournalUnwritable as error:
        _log.warning("stopping all the same: %s", error.message)


def _behaviour(record: ReplicaRecord) -> StopBehaviour:
    engine = support(record.entry.declaration.engine)
    return UNKNOWN_ENGINE_STOP if engine is None else engine.stop
