"""A fleet in memory with its own time: it obeys orders as agents do, refuses what they refuse, and fails as told.

It drives plans to convergence in tests; it knows nothing of how the planner decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.assignment import RunEntry, StopEntry
from reconciler.domain.observed import Observation, ObservedReplica, ReachableNode, ReplicaState
from reconciler.fleet.simulated_memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.domain.observed import NodeObservation
    from reconciler.domain.plan import Decision, NodeOrders

EXIT_SECONDS = 3.0
DRAIN_SECONDS = 2.0
_LEAVING = frozenset({ReplicaState.DRAINING, ReplicaState.STOPPING})


class Refused(AssertionError):
    """Orders that no agent would take."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """One replica with the instant, in seconds, at which its state began and at which it ends."""

    seen: ObservedReplica
    began: float
    ends: float | None = None

    @property
    def id(self) -> str:
        return self.seen.entry.id


@dataclass(slots=True)
class Simulation:
    """Nodes as first observed, then as orders and time leave them."""

    nodes: dict[str, NodeObservation]
    load_seconds: float = 60.0
    fails: Callable[[RunEntry], str | None] = lambda _: None
    """Why a launch of this entry fails; None when it comes up."""
    now: float = 0.0
    replicas: dict[str, dict[str, Simulated]] = field(default_factory=dict)
    """By node and id, of the nodes that answer."""
    memory: dict[str, Memory] = field(default_factory=dict)
    """By node, what its agent remembers."""

    @classmethod
    def of(cls, observed: Observation, **fields: float | Callable[[RunEntry], str | None]) -> Simulation:
        """Start from an observation; what is starting or ending has its whole way before it."""
        simulation = cls({node.name: node for node in observed.nodes}, **fields)  # type: ignore[arg-type]  # mixed
        for node in observed.reachable:
            simulation.replicas[node.name] = {
                replica.id: simulation._entered(replica, -replica.state_for.total_seconds())
                for replica in node.replicas
            }
            simulation.memory[node.name] = Memory.of(node)
        return simulation

    def observe(self) -> Observation:
        """What agents would report at this instant."""
        return Observation(nodes=tuple(self._report(self.nodes[name]) for name in sorted(self.nodes)))

    def obey(self, decision: Decision) -> list[str]:
        """Carry a decision's orders out as far as they say at once; what was done, for people."""
        return [line for name in sorted(decision.orders) for line in self._take(decision.orders[name])]

    def pass_time(self, at_most: timedelta | None = None) -> bool:
        """Go to the next instant at which anything happens; False when nothing ever will."""
        instants = [each.ends for held in self.replicas.values() for each in held.values() if each.ends is not None]
        if at_most is not None:
            instants.append(self.now + at_most.total_seconds())
        if not instants:
            return False
        self.now = min(instants)
        for node, held in self.replicas.items():
            for each in list(held.values()):
                if each.ends is not None and each.ends <= self.now:
                    self._move_on(node, held, each)
        return True

    def _take(self, orders: NodeOrders) -> Iterator[str]:
        if orders.node not in self.replicas:
            raise Refused(f"{orders.node} does not answer")
        held = self.replicas[orders.node]
        fleets = {entry.fleet for entry in orders.entries if isinstance(entry, RunEntry)}
        named = {entry.id for entry in orders.entries}
        for id_, each in held.items():
            if id_ not in named and each.seen.entry.fleet in fleets:
                raise Refused(f"{id_} is not named")
        for entry in orders.entries:
            if isinstance(entry, StopEntry):
                yield from self._stop(orders.node, held, entry)
            else:
                yield from self._run(orders.node, held, entry)

    def _stop(self, node: str, held: dict[str, Simulated], entry: StopEntry) -> Iterator[str]:
        each = held.get(entry.id)
        if each is None:
            raise Refused(f"{entry.id} is not here")
        if each.seen.state in _LEAVING:
            return
        seen = each.seen.model_copy(update={"state": ReplicaState.DRAINING, "routable": False})
        drained = entry.withdraw_delay.total_seconds() + min(entry.drain_timeout.total_seconds(), DRAIN_SECONDS)
        ends = self.now + (0.0 if each.seen.state is ReplicaState.FAILED else drained)
        held[entry.id] = Simulated(seen, self.now, ends)
        yield f"stop {entry.id} on {node}"

    def _run(self, node: str, held: dict[str, Simulated], entry: RunEntry) -> Iterator[str]:
        known = held.get(entry.id)
        if known is None:
            wanted = entry.placement.gpu_uuids
            holders = [each.id for each in held.values() if wanted & each.seen.entry.placement.gpu_uuids]
            if holders:
                raise Refused(f"{entry.id} wants GPUs of {', '.join(holders)}")
            seen = ObservedReplica(
                entry=entry, state=ReplicaState.STARTING, ever_ready=self.memory[node].was_ready(entry.digest)
            )
            held[entry.id] = self._launched(seen)
            yield f"run {entry.id} on {node}"
        elif entry.attempt > known.seen.entry.attempt:
            if known.seen.state is not ReplicaState.FAILED:
                if len(entry.placement.shards) == 1:
                    raise Refused(f"{entry.id} has not failed")
                held[entry.id] = replace(known, seen=known.seen.model_copy(update={"entry": entry}))
                return  # another part of it has, and this one runs
            held[entry.id] = self._launched(known.seen.model_copy(update={"entry": entry}))
            yield f"run {entry.id} again on {node}"
        elif without_adapters(entry) == without_adapters(known.seen.entry):
            if entry != known.seen.entry:
                held[entry.id] = replace(known, seen=known.seen.model_copy(update={"entry": entry}))
                yield f"run {entry.id} with other adapters on {node}"
        else:
            raise Refused(f"{entry.id} is held with another entry")

    def _launched(self, seen: ObservedReplica) -> Simulated:
        state = seen.model_copy(update={"state": ReplicaState.STARTING, "failure": None})
        return Simulated(state, self.now, self.now + self.load_seconds)

    def _entered(self, replica: ObservedReplica, began: float) -> Simulated:
        match replica.state:
            case ReplicaState.PENDING | ReplicaState.STARTING:
                return Simulated(replica, began, self.now + self.load_seconds)
            case ReplicaState.DRAINING | ReplicaState.STOPPING:
                return Simulated(replica, began, self.now + EXIT_SECONDS)
            case ReplicaState.UNHEALTHY:  # cured, as most are
                return Simulated(replica, began, self.now + EXIT_SECONDS)
            case ReplicaState.READY | ReplicaState.FAILED:
                return Simulated(replica, began)

    def _move_on(self, node: str, held: dict[str, Simulated], each: Simulated) -> None:
        match each.seen.state:
            case ReplicaState.PENDING | ReplicaState.STARTING:
                why = self.fails(each.seen.entry)
                held[each.id] = self._ready(each.seen) if why is None else self._failed(each.seen, why)
                self._remember(node, each.seen.entry, why)
            case ReplicaState.UNHEALTHY:
                held[each.id] = self._ready(each.seen)
            case ReplicaState.DRAINING:
                seen = each.seen.model_copy(update={"state": ReplicaState.STOPPING})
                held[each.id] = Simulated(seen, self.now, self.now + EXIT_SECONDS)
            case ReplicaState.STOPPING:
                del held[each.id]
            case ReplicaState.READY | ReplicaState.FAILED:
                held[each.id] = replace(each, ends=None)

    def _remember(self, node: str, entry: RunEntry, why: str | None) -> None:
        if why is None:
            self.memory[node].came_up(entry, self.load_seconds)
        else:
            self.memory[node].came_to_nothing(entry, why, self.now)

    def _ready(self, seen: ObservedReplica) -> Simulated:
        update = {
            "state": ReplicaState.READY,
            "ever_ready": True,
            "routable": True,
            "failures_in_a_row": 0,
            "idle_for": timedelta(),
        }
        return Simulated(seen.model_copy(update=update), self.now)

    def _failed(self, seen: ObservedReplica, why: str) -> Simulated:
        update = {
            "state": ReplicaState.FAILED,
            "failure": why,
            "failures_in_a_row": seen.failures_in_a_row + 1,
            "routable": False,
        }
        return Simulated(seen.model_copy(update=update), self.now)

    def _seen(self, node: str, each: Simulated) -> ObservedReplica:
        update: dict[str, timedelta | bool] = {"state_for": timedelta(seconds=self.now - each.began)}
        update["ever_ready"] = each.seen.ever_ready or self.memory[node].was_ready(each.seen.entry.digest)
        if each.seen.idle_for is not None:  # nobody asks anything in the course
            update["idle_for"] = each.seen.idle_for + timedelta(seconds=self.now - max(each.began, 0.0))
        return each.seen.model_copy(update=update)

    def _report(self, node: NodeObservation) -> NodeObservation:
        if not isinstance(node, ReachableNode):
            return node
        replicas = tuple(self._seen(node.name, each) for _, each in sorted(self.replicas[node.name].items()))
        memory, held = self.memory[node.name], self.replicas[node.name]
        told = {
            "replicas": replicas,
            "load_times": memory.told_loads(),
            "last_good": tuple(each for each in memory.last_good if each.id not in held),
            "failed_launches": memory.failed_launches,
            "failed_starts": memory.told_starts(self.now),
        }
        return node.model_copy(update=told)


def without_adapters(entry: RunEntry) -> RunEntry:
    """The entry without what a running engine is told of; it is the same replica as long as this is the same."""
    declared = entry.declaration
    bare = declared.model_copy(update={"adapters": ()}) if declared.loads_adapters else declared
    return entry.model_copy(update={"declaration": bare})
