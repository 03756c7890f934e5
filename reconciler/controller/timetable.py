"""`plan --simulate`: the very `apply` over a simulated copy of the fleet, in virtual time; what happens when.

Load times are what nodes last reported, else what the size of the weights tells; nothing fails by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.controller.apply import StopRequest, apply
from reconciler.controller.figures import LockFigures
from reconciler.controller.ground import Ground
from reconciler.controller.standing import Ledger
from reconciler.domain.assignment import StopEntry
from reconciler.domain.observed import ReachableNode, ReplicaState
from reconciler.domain.outlook import TimetableRow
from reconciler.domain.placement import slot_name
from reconciler.fleet.simulated import SimulatedFleet, SimulatedNodes
from reconciler.fleet.simulated_engine import Course, EngineProcess
from reconciler.fleet.simulated_memory import Memory
from reconciler.fleet.simulated_node import SimulatedNode
from reconciler.fleet.simulated_replica import SimulatedReplica
from reconciler.fleet.virtual_clock import run_virtually
from reconciler.planning.impact import load_times

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from reconciler.controller.aim import Aim
    from reconciler.controller.attempt import Pass
    from reconciler.domain.assignment import Holder, RunEntry
    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import Observation, ObservedReplica
    from reconciler.planning.impact import LoadTimes

UNKNOWN_LOAD = 60.0
"""Seconds, where neither a node nor a lock tells: a small model; the timetable says that it is assumed."""

_LEAVING = frozenset({ReplicaState.DRAINING, ReplicaState.STOPPING})
_WORDS = {
    ReplicaState.STARTING: "starts",
    ReplicaState.READY: "ready",
    ReplicaState.DRAINING: "withdrawn, drains",
    ReplicaState.FAILED: "fails",
}


class Forgetful(Ledger):
    """Reads what stands and remembers nothing: a rehearsal leaves no trace."""

    def passed(  # type: ignore[explicit-override]  # Python 3.11
        self, desired: Desired, observed: Observation, used: Iterable[Intent] = ()
    ) -> None:
        """Nothing."""


@dataclass(slots=True)
class _Scribe:
    """Writes down what happens, as it happens; also who `apply` reports to."""

    times: LoadTimes
    figures: LockFigures
    rows: list[TimetableRow] = field(default_factory=list)
    _state: dict[tuple[str, str], ReplicaState] = field(default_factory=dict)
    _serving: dict[str, set[str]] = field(default_factory=dict)

    def course(self, entry: RunEntry, node: str) -> Course:
        """How a launch goes: as long as the last one took."""
        last = self.times.of(entry.model, [node])
        expected = self.figures.loading(entry.model, entry.declaration) if last is None else None
        return Course(load_seconds=last or (expected.seconds if expected is not None else UNKNOWN_LOAD))

    def knows(self, node: str, replica: SimulatedReplica) -> None:
        """Take in how it stands at the start."""
        self._state[node, replica.id] = replica.state
        if replica.state is ReplicaState.READY:
            self._serving.setdefault(replica.entry.model, set()).add(replica.id)

    def changed(self, at: float, node: str, replica: SimulatedReplica) -> None:
        """A transition of a replica on a node; one that is none that people ask about is left out."""
        before, model = self._state.get((node, replica.id)), replica.entry.model
        serving = self._serving.setdefault(model, set())
        word = _WORDS.get(replica.state) if replica.state is not before else None
        if replica.is_gone:
            self._state.pop((node, replica.id), None)
            word = "gone" if before is not None else None
        else:
            self._state[node, replica.id] = replica.state
        (serving.add if replica.state is ReplicaState.READY else serving.discard)(replica.id)
        if word is not None:
            slot = slot_name(model, replica.entry.ordinal)
            placement = replica.entry.placement
            self.rows.append(
                TimetableRow(seconds=round(at, 1), replica=slot, placement=placement, event=word, serving=len(serving))
            )

    def passed(self, done: Pass) -> None:
        """See `Reporter`."""

    def said(self, message: str) -> None:
        """See `Reporter`: what disturbs a rehearsal is not of the fleet."""


def timetable(
    aim: Aim, observed: Observation, holder: Holder, state: Path, only: str | frozenset[str] | None
) -> tuple[TimetableRow, ...]:
    """What would happen when, in the order in which it does; nothing is sent, started or remembered."""
    scribe = _Scribe(load_times(observed), LockFigures(aim.desired))
    run_virtually(_rehearse, aim, observed, holder, state, only, scribe)
    return tuple(scribe.rows)


async def _rehearse(
    aim: Aim,
    observed: Observation,
    holder: Holder,
    state: Path,
    only: str | frozenset[str] | None,
    scribe: _Scribe,
) -> None:
    nodes = SimulatedNodes(course_of=scribe.course)
    for node in observed.reachable:
        nodes.add(_simulated(aim.desired, node, nodes, scribe))
    nodes.on_change = scribe.changed
    ground = Ground(SimulatedFleet(nodes), tuple(node.name for node in aim.desired.nodes))
    await apply(ground, aim, holder, scribe, StopRequest(), Forgetful(state, scribe.said), only=only)


def _simulated(desired: Desired, node: ReachableNode, nodes: SimulatedNodes, scribe: _Scribe) -> SimulatedNode:
    """The node as it was observed at second 0."""
    simulated = SimulatedNode(node.name, node.gpus, node.engines, nodes)
    simulated.foreign = list(node.foreign)
    simulated.memory = Memory.of(node)
    simulated.lost_gpus = {gpu.uuid for gpu in node.gpus if not gpu.answers}
    for pid, each in enumerate(node.replicas, 1):
        replica = _replica(desired, each, pid, scribe.course(each.entry, node.name))
        simulated.replicas[replica.id] = replica
        scribe.knows(node.name, replica)
    return simulated


def _replica(desired: Desired, seen: ObservedReplica, pid: int, course: Course) -> SimulatedReplica:
    since = -seen.state_for.total_seconds()
    replica = SimulatedReplica(seen.entry, seen.state, since, failures_in_a_row=seen.failures_in_a_row)
    if seen.state is ReplicaState.PENDING:
        return replica
    if seen.state is ReplicaState.FAILED:
        replica.failure = seen.failure
        return replica
    launched_at = since if seen.state is ReplicaState.STARTING else since - course.load_seconds
    replica.process = EngineProcess(pid, course, launched_at)
    if seen.state is ReplicaState.UNHEALTHY:
        replica.process.mute_since = since
    if seen.state in _LEAVING:
        spec = desired.model_by_name.get(seen.entry.model)
        policy = None if spec is None else desired.policy(spec)
        withdraw, drain = (policy.withdraw_delay, policy.drain_timeout) if policy else (seen.state_for, seen.state_for)
        replica.stop = StopEntry(id=seen.id, withdraw_delay=withdraw, drain_timeout=drain)
    replica.ready_at = since if seen.state is ReplicaState.READY else None
    return replica
