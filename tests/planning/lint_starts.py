"""The part of the second opinion that is about starts: how many at once, and where a launch that failed goes next."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from reconciler.domain.assignment import RunEntry, StopEntry
from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReplicaState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.desired import Desired
    from reconciler.domain.observed import Observation, ObservedReplica, ReachableNode
    from reconciler.domain.plan import Decision

_STARTING = {ReplicaState.PENDING, ReplicaState.STARTING}
_LEAVING = {ReplicaState.DRAINING, ReplicaState.STOPPING}
ON_ONE_NODE = 4
TRIES = 3


def starts(desired: Desired, observed: Observation, decision: Decision) -> Iterator[str]:
    """Every sentence about starts that is broken."""
    yield from _too_many(desired, observed, decision)
    yield from _on_lost_gpus(observed, decision)
    yield from _tried_again(observed, decision)
    yield from _stopped_early(observed, decision)


def _too_many(desired: Desired, observed: Observation, decision: Decision) -> Iterator[str]:
    """Fresh starts keep to the budget, whatever else is starting; what its last replica was stopped for has its turn.

    What was cleared by a stop in this very pass counts from the next on, so that it is not looked at here.
    """
    held = [replica for _, replica in observed.replicas() if replica.entry.fleet == desired.fleet.name]
    known = {replica.id for replica in held}
    starting = {each.id: each.entry for each in held if each.state in _STARTING and _counts(each)}
    states: dict[tuple[str, int], set[ReplicaState]] = defaultdict(set)
    for each in held:
        states[desired.model_of(each.entry), each.entry.ordinal].add(each.state)
    fresh = {
        entry.id: entry
        for orders in decision.orders.values()
        for entry in orders.entries
        if isinstance(entry, RunEntry) and entry.id not in known
    }
    asking = {
        id_: entry
        for id_, entry in fresh.items()
        if not states[entry.model, entry.ordinal] or not states[entry.model, entry.ordinal] <= _LEAVING
    }
    written = desired.fleet.limits.concurrent_starts
    limit = written if isinstance(written, int) else max(8, len(desired.nodes) * int(written[:-1]) // 100)
    if asking and len(starting | fresh) > limit:
        yield f"{len(fresh)} start beside {len(starting)} others, {limit} may"
    for node in {name for entry in asking.values() for name in entry.placement.nodes}:
        there = [entry for entry in (starting | fresh).values() if node in entry.placement.nodes]
        if len(there) > ON_ONE_NODE:
            yield f"{len(there)} are starting on {node}, {ON_ONE_NODE} may"


def _counts(replica: ObservedReplica) -> bool:
    return replica.state_for < replica.entry.ready_timeout


def _on_lost_gpus(observed: Observation, decision: Decision) -> Iterator[str]:
    """What failed is not launched again on a GPU that cannot be used any more."""
    for node, replica in observed.replicas():
        entries = decision.orders[node.name].entries if node.name in decision.orders else ()
        told = next((each for each in entries if each.id == replica.id), None)
        again = isinstance(told, RunEntry) and told.attempt > replica.entry.attempt
        lost = _lost(node, replica)
        if again and replica.state is ReplicaState.FAILED and lost:
            yield f"{replica.id} is launched again on {', '.join(lost)}, which {node.name} has lost"


def _lost(node: ReachableNode, replica: ObservedReplica) -> list[str]:
    answering = {gpu.uuid for gpu in node.gpus if gpu.answers} - {
        uuid for process in node.foreign for uuid in process.gpus
    }
    mine = [gpu.uuid for shard in replica.entry.placement.shards if shard.node == node.name for gpu in shard.gpus]
    return [uuid for uuid in mine if uuid not in answering]


def _tried_again(observed: Observation, decision: Decision) -> Iterator[str]:
    """A failed launch goes to another node only where it serves elsewhere or has lost a GPU, and never for long."""
    failed: dict[tuple[str, int, str, str | None], set[str]] = defaultdict(set)
    for node in observed.reachable:
        for launch in node.failed_launches:
            failed[launch.model, launch.ordinal, launch.digest, launch.retry].add(node.name)
    held = {replica.id: replica for _, replica in observed.replicas()}
    for orders in decision.orders.values():
        for entry in orders.entries:
            if not isinstance(entry, RunEntry) or (entry.id in held and entry == held[entry.id].entry):
                continue
            known = held.get(entry.id)
            if known is not None and (known.ever_ready or known.state is not ReplicaState.FAILED):
                continue  # its digest came up there since, or only its adapters are others
            nodes = failed.get((entry.model, entry.ordinal, entry.digest, entry.retry), set())
            if nodes & {*entry.placement.nodes}:
                yield f"{entry.id} is launched again under the same retry, and it failed"
            elif len(nodes) >= TRIES:
                yield f"{entry.id} failed on {len(nodes)} nodes and is tried on one more"
            elif nodes and not _may_be_the_nodes(observed, entry, nodes):
                yield f"{entry.id} is tried elsewhere, and nothing says that {', '.join(nodes)} is at fault"


def _may_be_the_nodes(observed: Observation, entry: RunEntry, nodes: set[str]) -> bool:
    same = [
        (node, replica)
        for node, replica in observed.replicas()
        if replica.entry.model == entry.model and replica.entry.digest == entry.digest
    ]
    if any(replica.state is ReplicaState.READY for _, replica in same):
        return True
    mine = [each for each in same if each[1].entry.ordinal == entry.ordinal]
    lost = any(replica.state is ReplicaState.FAILED and _lost(node, replica) for node, replica in mine)
    suspect = any(
        node.failed_starts is not None
        and node.failed_starts.in_a_row >= TRIES
        and len({launch.model for launch in node.failed_launches}) > 1
        for node in observed.reachable
        if node.name in nodes
    )
    return (lost or suspect) and len(nodes) == 1


def _stopped_early(observed: Observation, decision: Decision) -> Iterator[str]:
    """In place what serves stops only when nothing but it, and what is leaving already, holds the seat."""
    stopped = {
        entry.id for orders in decision.orders.values() for entry in orders.entries if isinstance(entry, StopEntry)
    }
    staying = [
        replica for _, replica in observed.replicas() if replica.state not in _LEAVING and replica.id not in stopped
    ]
    serving = {replica.id for _, replica in observed.replicas() if replica.state is ReplicaState.READY}
    for change in decision.plan.changes:
        if change.strategy is not Strategy.IN_PLACE or change.before is None or change.after is None:
            continue
        if change.before.id in stopped & serving:
            holders = [each.id for each in staying if each.entry.placement.gpu_uuids & change.after.gpu_uuids]
            yield from (f"{change.before.id} stops though {id_} holds the seat of what follows" for id_ in holders)
