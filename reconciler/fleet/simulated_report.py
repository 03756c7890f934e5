"""What an observation says of a simulated node and its replicas, in the terms of the real one (`agent.observing`)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.observed import ObservedReplica, ReachableNode, ReplicaState

if TYPE_CHECKING:
    from reconciler.domain.observed import ObservedGpu
    from reconciler.fleet.simulated_node import SimulatedNode
    from reconciler.fleet.simulated_replica import SimulatedReplica

HELD_MIB = 40_000
"""What an engine is measured to hold of each of its GPUs: far above what an idle driver takes."""

_WAITS = frozenset({ReplicaState.PENDING, ReplicaState.STARTING})


def report(node: SimulatedNode, now: float) -> ReachableNode:
    """The node as of now."""
    return ReachableNode(
        name=node.name,
        boot_id=node.boot_id,
        revision=node.revision,
        epoch=node.claims.epoch,
        generation=node.accepted[1],
        gpus=tuple(_measured(node, gpu, now) for gpu in node.gpus),
        engines=node.engines,
        replicas=tuple(_observed(node, replica, now) for _, replica in sorted(node.replicas.items())),
        foreign=tuple(node.foreign),
        load_times=node.memory.told_loads(),
        failed_starts=node.memory.told_starts(now),
        failed_launches=node.memory.failed_launches,
        last_good=node.memory.told_good(node.replicas, now),
    )


def _observed(node: SimulatedNode, replica: SimulatedReplica, now: float) -> ObservedReplica:
    process, in_flight = replica.process, _in_flight(replica, now)
    return ObservedReplica(
        entry=replica.entry,
        state=replica.state,
        state_for=timedelta(seconds=now - replica.since),
        since=node.midnight + timedelta(seconds=replica.since),
        stage=replica.stage if replica.state in _WAITS else None,
        routable=replica.state is ReplicaState.READY,
        address=None if process is None else f"http://{node.name}:{20_000 + process.pid % 10_000}",
        pid=None if process is None else process.pid,
        running=in_flight,
        waiting=None if in_flight is None else 0,
        idle_for=_idle(replica, now),
        failure=replica.failure,
        ever_ready=node.memory.was_ready(replica.entry.digest),
        failures_in_a_row=replica.failures_in_a_row,
        load_seconds=replica.load_seconds,
        adapters=None if process is None else process.adapters,
    )


def _in_flight(replica: SimulatedReplica, now: float) -> int | None:
    """Requests in flight; None where nobody answers that. What drains does so for one."""
    if replica.process is None or replica.state not in {ReplicaState.READY, ReplicaState.DRAINING}:
        return None
    return max(replica.process.in_flight(now), int(replica.state is ReplicaState.DRAINING))


def _idle(replica: SimulatedReplica, now: float) -> timedelta | None:
    """Since when nothing was in flight: as far back as this agent has read it, and only while it answers."""
    process = replica.process
    if process is None or replica.state is not ReplicaState.READY or process.in_flight(now):
        return None
    return timedelta(seconds=max(now - max(replica.since, replica.watched_since, process.busy_until), 0.0))


def _measured(node: SimulatedNode, gpu: ObservedGpu, now: float) -> ObservedGpu:
    if gpu.uuid in node.lost_gpus:
        return gpu.model_copy(update={"answers": False, "used_mib": None})
    held = any(uuid == gpu.uuid for uuid, _ in node.held_gpus(now))
    return gpu.model_copy(update={"used_mib": HELD_MIB if held else 0})
