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
from reconciler.agent.launch_files import remove_launch_directory
from reconciler.agent.lock import STOPS_ENGINES, LockHeld, holding_lock, is_locked, is_stopping, lock_path
from reconciler.agent.outgoing import KILLED_WITHIN, LOOK_EVERY, Outgoing, end_processes
from reconciler.agent.processes import lock_owners, running_engines
from reconciler.agent.recovery import recover
from reconciler.agent.stop_moves import UNKNOWN_ENGINE_STOP
from reconciler.domain.assignment import StopEntry
from reconciler.engines.registry import support
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reconciler.agent.drivers.base import ProcessIdentity
    from reconciler.agent.records import ReplicaRecord
    from reconciler.agent.recovery import Recovered
    from reconciler.engines.base import StopBehaviour

_log = logging.getLogger(__name__)

AGENT_ENDS_WITHIN = 10.0
"""Seconds: two for its last answers, and much for a busy machine; then it is killed, which it is made to survive."""

STOP_ENDS_WITHIN = 60.0
"""Seconds in which another `agent stop --engines` lets go of the lock: the slowest engine is killed after thirty, and
its kernel has ten."""

ATTEMPTS = 5
"""Times the agent is ended to stop its engines: an `apply` that runs starts it again at once."""


def stop_agent(state_dir: Path, *, engines: bool) -> list[str]:
    """End the agent of this state directory; with `engines` also every engine it holds, at once and without a drain.

    Works whether or not an agent runs, and whatever is left of its directory. Says what it did, one clause a line.
    AgentError when something would not end.
    """
    did = end_agent(state_dir)
    if not engines or not (agent_directory(state_dir).is_dir() or running_engines(agent_directory(state_dir) / "logs")):
        return did
    for _ in range(ATTEMPTS - 1):
        try:
            return did + _stop_engines(state_dir)
        except LockHeld:  # it came back in between
            did += end_agent(state_dir)
    return did + _stop_engines(state_dir)


def end_agent(state_dir: Path, *, displaced: bool = False) -> list[str]:
    """End every agent of this state directory, also one whose directory was deleted, and leave its engines.

    `displaced`: only the latter. Returns once their processes are gone and their locks are free.
    """
    driver = ProcessDriver()
    if not displaced:
        _wait_for_other_stop(state_dir)
    agents = lock_owners(lock_path(state_dir), displaced=True) if displaced else _holders(state_dir)
    for number, seconds in ((SIGTERM, AGENT_ENDS_WITHIN), (SIGKILL, KILLED_WITHIN)):
        for agent in agents:
            driver.signal(agent, number)
        if _ended_within(seconds, driver, agents):
            break
    left = [str(agent.pid) for agent in agents if driver.alive(agent)]
    if left:
        raise AgentError(f"the agent (pid {', '.join(left)}) does not end, not even by SIGKILL")
    return [f"agent stopped (pid {agent.pid})" for agent in agents] or ["no agent was running"]


def _holders(state_dir: Path) -> list[ProcessIdentity]:
    """Who holds the lock; one that comes while we look, or is just dying, is waited for: the lock tells of it."""
    deadline = time.monotonic() + KILLED_WITHIN
    while True:
        agents = list(lock_owners(lock_path(state_dir), displaced=False))
        if agents or not is_locked(state_dir):
            return agents
        if time.monotonic() >= deadline:
            raise AgentError(f"a process that cannot be seen holds the lock in {agent_directory(state_dir)}")
        time.sleep(LOOK_EVERY)


def _wait_for_other_stop(state_dir: Path) -> None:
    """Another `agent stop --engines` holds the lock: it is no agent, and ends by itself."""
    deadline = time.monotonic() + STOP_ENDS_WITHIN
    while is_stopping(state_dir):
        if time.monotonic() >= deadline:
            raise AgentError(f"another `agent stop --engines` runs for {state_dir} and does not end")
        time.sleep(LOOK_EVERY)


def _ended_within(seconds: float, driver: ProcessDriver, agents: Sequence[ProcessIdentity]) -> bool:
    deadline = time.monotonic() + seconds
    while any(driver.alive(agent) for agent in agents):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_EVERY)
    return True


def _stop_engines(state_dir: Path) -> list[str]:
    directory = agent_directory(state_dir)
    with holding_lock(state_dir, listen=STOPS_ENGINES):
        journal, running = Journal(directory), running_engines(directory / "logs")
        moment, boot_id = SystemClock().read(), machine_boot_id()
        recovered = recover(journal.open(), running, moment, boot_id=boot_id, host="127.0.0.1")
        _record_intent(recovered, journal)
        stopping = [
            Outgoing(record.id, record.identity, _behaviour(record))
            for _, record in sorted(recovered.replicas.items())
            if record.identity is not None
        ]
        stopping += [Outgoing(each.command, each.identity, UNKNOWN_ENGINE_STOP) for each in recovered.strays]
        said = end_processes(stopping)
        for replica_id in recovered.replicas:
            journal.remove_replica(replica_id)
            remove_launch_directory(directory, replica_id)
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
