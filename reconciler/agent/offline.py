"""A look at the local node when no agent runs: its journal and the process table. Starts and changes nothing."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from reconciler.agent import lifecycle
from reconciler.agent.adoption import adopted
from reconciler.agent.causes import why_ended
from reconciler.agent.clock import SystemClock
from reconciler.agent.config import agent_directory
from reconciler.agent.drivers.base import Exit
from reconciler.agent.drivers.process import ProcessDriver, machine_boot_id
from reconciler.agent.glance import answering
from reconciler.agent.gpus import look_once
from reconciler.agent.inventory import installed_engines
from reconciler.agent.journal import read_journal
from reconciler.agent.logs import EngineLogs
from reconciler.agent.observing import REVISIONS_PER_START, Gauges, observe_replica
from reconciler.agent.processes import running_engines
from reconciler.agent.recovery import recover
from reconciler.agent.remembered import told_good, told_starts
from reconciler.domain.observed import ForeignProcess, ReachableNode, ReplicaState
from reconciler.engines.registry import support

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.agent.clock import Moment
    from reconciler.agent.config import AgentConfig
    from reconciler.agent.records import ReplicaRecord


_UNSURE = frozenset({ReplicaState.STARTING, ReplicaState.UNHEALTHY})
"""What a living engine may be recorded as although it serves."""


def offline_observation(state_dir: Path, config: AgentConfig) -> ReachableNode:
    """The node as its last agent left it, with `agent=False`.

    A replica whose process lives keeps its state, and its address is routable if it was. One that was not recorded as
    ready is asked, so that what serves does not look as if it served nobody (`glance.py`: at most 0.4 s for all). One
    whose process is gone has failed. A missing state directory without engines is a node without replicas.
    """
    directory, moment, boot_id = agent_directory(state_dir), SystemClock().read(), machine_boot_id()
    logs = EngineLogs(directory / "logs")
    contents = read_journal(directory)
    recovered = recover(contents, running_engines(logs.directory), moment, boot_id=boot_id, host=config.engine_host)
    look = partial(_as_of_now, moment=moment, boot_id=boot_id, logs=logs, config=config)
    digests = recovered.node.ready_digests
    looks = (
        look(before, ever_ready=before.entry.digest in digests) for _, before in sorted(recovered.replicas.items())
    )
    records = [record for record in looks if record is not None]
    unsure = (record for record in records if record.state in _UNSURE and record.identity is not None)
    serving = answering(unsure, support, config.secrets, config.directory)
    gpus = look_once(config, os.environ)
    seen = [_serving(record, moment) if record.id in serving else record for record in records]
    return ReachableNode(
        name=config.node,
        boot_id=boot_id,
        agent=False,
        # Between the last revision of the agent before and the first of the next one.
        revision=0 if contents.node is None else recovered.node.agent_starts * REVISIONS_PER_START - 1,
        epoch=recovered.node.epoch,
        generation=recovered.node.accepted[1],
        gpus=gpus.gpus,
        gpu_problems=gpus.problems,
        engines=installed_engines(config, support),
        replicas=tuple(
            observe_replica(record, Gauges(), moment, ever_ready=record.id in serving or record.entry.digest in digests)
            for record in seen
        ),
        foreign=tuple(ForeignProcess(pid=each.identity.pid, command=each.command) for each in recovered.strays),
        load_times=recovered.node.load_times,
        failed_starts=told_starts(recovered.node, moment),
        failed_launches=recovered.node.failed_launches,
        last_good=told_good(recovered.node, {record.id for record in seen}, moment),
    )


def _serving(record: ReplicaRecord, moment: Moment) -> ReplicaRecord:
    """It answered us; how long it loaded nobody saw."""
    return lifecycle.became_ready(record.model_copy(update={"launched_seconds_at": None}), moment)


def _as_of_now(
    record: ReplicaRecord, *, moment: Moment, boot_id: str, logs: EngineLogs, config: AgentConfig, ever_ready: bool
) -> ReplicaRecord | None:
    """What the next agent would make of this record; None when it was being stopped and nothing of it is left."""
    driver = ProcessDriver()
    identity = record.identity
    now = adopted(
        record,
        moment,
        boot_id=boot_id,
        alive=identity is not None and driver.alive(identity),
        why=partial(why_ended, record.entry, Exit(), config=config, logs=logs, support=support),
        ever_ready=ever_ready,
    )
    left = identity is not None and driver.group_alive(identity)
    if now is None or (now.stop is not None and not left):
        return None
    return now if left else now.model_copy(update={"identity": None})
