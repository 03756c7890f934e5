"""A second opinion on plans, written without the planner: what no plan may ever say; run on every plan of a test."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from reconciler.domain.assignment import RunEntry, StopEntry
from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import replica_id
from reconciler.domain.plan import Action
from tests.planning.lint_guards import LEAVING, guards, preempted, preemptions
from tests.planning.lint_starts import starts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import Observation, ObservedReplica, ReachableNode
    from reconciler.domain.plan import Change, Decision, NodeOrders

RULES = {
    *("rollout/failed", "rollout/no-surge-room", "rollout/limits", "rollout/protected", "rollout/nodes-vanished"),
    *("inventory/overcommitted", "rollout/not-heard"),
}


def lint(
    desired: Desired,
    observed: Observation,
    decision: Decision,
    only: str | None = None,
    *,
    intents: Sequence[Intent] = (),
) -> list[str]:
    """Every sentence that is broken; `intents` are those that hold."""
    found = [*_slots(desired, observed, decision, only), *_floors(desired, observed, decision)]
    found += [*_budgets(desired, observed, decision), *_pairs(desired, observed, decision)]
    found += [*guards(desired, observed, decision, intents), *preemptions(desired, observed, decision)]
    found += starts(desired, observed, decision)
    for change in decision.plan.changes:
        found += _change(change)
    found += [f"{each.rule} is no rule" for each in decision.plan.blocked if each.rule not in RULES]
    if set(decision.orders) != {node.name for node in observed.reachable}:
        found.append("orders are not for just the nodes that answer")
    for node in observed.reachable:
        if node.name in decision.orders:
            found += _orders(desired, node, decision.orders[node.name])
    if decision.settled and (decision.plan.acts or any(each.changes_something for each in decision.orders.values())):
        found.append("settled, yet something is left to do")
    return found


def _slots(desired: Desired, observed: Observation, decision: Decision, only: str | None) -> Iterator[str]:
    wanted = {f"{model.name}/{ordinal}" for model in desired.models for ordinal in range(model.replicas)}
    lasts = [*observed.reachable, *(node.last for node in observed.unreachable if node.last is not None)]
    entries = [replica.entry for node in lasts for replica in node.replicas]
    wanted |= {f"{desired.model_of(entry)}/{entry.ordinal}" for entry in entries if entry.fleet == desired.fleet.name}
    wanted = {slot for slot in wanted if only is None or slot.rpartition("/")[0] == only}
    seen = Counter(change.replica for change in decision.plan.changes)
    yield from (f"{slot} stands {count} times" for slot, count in seen.items() if count != 1)
    yield from (f"{slot} is missing" for slot in wanted - seen.keys())
    highest = {model.name: max(model.replicas, model.scaling.max or 0) for model in desired.models}
    extra = {slot for slot in seen.keys() - wanted if int(slot.rpartition("/")[2]) >= highest[slot.rpartition("/")[0]]}
    yield from (f"{slot} is no slot" for slot in extra)
    order = [(change.model, int(change.replica.rpartition("/")[2])) for change in decision.plan.changes]
    if order != sorted(order):
        yield "changes are not sorted by model and ordinal"


def _change(change: Change) -> Iterator[str]:
    before, after = change.before is not None, change.after is not None
    waits = change.schedule.kind == "waiting"
    match change.action:
        case Action.CREATE if before or not (after or waits):
            yield f"{change.replica}: a create has no before, and an after unless it waits"
        case Action.REPLACE if not before or not (after or waits):
            yield f"{change.replica}: a replace has a before, and an after unless it waits"
        case Action.DELETE if not before or after:
            yield f"{change.replica}: a delete has a before and no after"
        case Action.NONE if change.before != change.after:
            yield f"{change.replica}: nothing happens, yet before and after differ"
        case _:
            pass
    if (change.strategy is not None) != (change.action is Action.REPLACE):
        yield f"{change.replica}: a strategy belongs to a replace"
    if waits and not change.schedule.message:
        yield f"{change.replica} waits without a word"
    if not waits and (change.schedule.on or change.schedule.message):
        yield f"{change.replica} goes now, yet waits on something"


def _orders(desired: Desired, node: ReachableNode, orders: NodeOrders) -> Iterator[str]:
    fleet = desired.fleet.name
    ours = {replica.id: replica for replica in node.replicas if replica.entry.fleet == fleet}
    theirs = {replica.id for replica in node.replicas if replica.entry.fleet != fleet}
    named = Counter(entry.id for entry in orders.entries)
    yield from (f"{node.name}: {id_} is named {count} times" for id_, count in named.items() if count != 1)
    yield from (f"{node.name} omits {id_}" for id_ in ours.keys() - named.keys())
    yield from (f"{node.name} names {id_}, another fleet's" for id_ in theirs & named.keys())
    changes = False
    fresh: list[RunEntry] = []
    for entry in orders.entries:
        held = ours.get(entry.id)
        if isinstance(entry, StopEntry):
            changes |= held is not None and held.state not in LEAVING
            if held is None:
                yield f"{node.name} stops {entry.id}, which it does not hold"
        elif held is None:
            changes = True
            fresh.append(entry)
        else:
            changes |= entry != held.entry
            yield from _kept(node, entry, held)
    if changes != orders.changes_something:
        yield f"{node.name}: changes_something is {orders.changes_something}"
    yield from _fresh(desired, node, fresh)


def _kept(node: ReachableNode, entry: RunEntry, held: ObservedReplica) -> Iterator[str]:
    if held.state in LEAVING:
        yield f"{node.name} keeps {entry.id}, which is stopping"
    if entry == held.entry:
        return
    told = _without_live_adapters(entry), _without_live_adapters(held.entry)
    if told[0] != told[1]:
        yield f"{node.name} changes {entry.id} under its feet"
    elif entry.declaration != held.entry.declaration and entry.attempt == held.entry.attempt:
        return  # only its adapters are others
    is_part = len(entry.placement.shards) > 1  # of one that failed elsewhere, and out of reach it may have missed some
    is_next = held.state is ReplicaState.FAILED and entry.attempt == held.entry.attempt + 1
    if not (is_next or (is_part and entry.attempt > held.entry.attempt)):
        yield f"{node.name} launches {entry.id} again though it has not failed"


def _without_live_adapters(entry: RunEntry) -> tuple[Any, ...]:
    declared = entry.declaration
    live = declared.engine in {"vllm", "sglang"} and bool(declared.adapters)
    return entry.placement, declared.model_copy(update={"adapters": "live"}) if live else declared


def _fresh(desired: Desired, node: ReachableNode, fresh: list[RunEntry]) -> Iterator[str]:
    """New entries: on GPUs that are the fleet's, free and measured so, each given once; within host RAM and cores."""
    listed = desired.node_by_name.get(node.name)
    if fresh and (listed is None or listed.drain):
        yield f"{node.name} starts something, though it is drained or not in the inventory"
    held = [replica.entry.placement for replica in node.replicas]
    taken = Counter(uuid for placement in held for uuid in placement.gpu_uuids)
    for entry in fresh:
        yield from _identity(entry)
        if node.engines and entry.declaration.engine not in node.engines:
            yield f"{node.name} has no {entry.declaration.engine} for {entry.id}"
        uuids = [gpu.uuid for shard in entry.placement.shards if shard.node == node.name for gpu in shard.gpus]
        taken.update(uuids)
        for uuid in uuids:
            yield from (f"{entry.id} is given {uuid}, {why}" for why in _unfit(node, listed, entry, uuid))
            if taken[uuid] > 1:
                yield f"{entry.id} is given {uuid}, which another holds"
    if listed is not None and any(entry.declaration.gpu_class is None for entry in fresh):
        yield from _host(node, fresh, listed.memory_gib, listed.cpu_cores)


def _identity(entry: RunEntry) -> Iterator[str]:
    shards = entry.placement.shards
    mark = replica_id(entry.model, entry.ordinal, entry.digest, entry.restart, entry.intent, shards)
    if entry.id != mark or entry.placement.id != mark or entry.digest != entry.declaration.launch_digest():
        yield f"{entry.id} is not the id of what it runs"
    if any(len(shard.gpus) != entry.declaration.gpus for shard in shards):
        yield f"{entry.id} is given {len(entry.placement.gpu_uuids)} GPUs"
    if len({shard.node for shard in shards}) != entry.declaration.nodes:
        yield f"{entry.id} is given {len(shards)} nodes"


def _unfit(node: ReachableNode, listed: Node | None, entry: RunEntry, uuid: str) -> Iterator[str]:
    gpu = next((each for each in node.gpus if each.uuid == uuid), None)
    if gpu is None or gpu.gpu_class != entry.declaration.gpu_class:
        yield "which is not there or not of its class"
        return
    if not gpu.answers or any(uuid in process.gpus for process in node.foreign):
        yield "which is silent or foreign"
    if listed is not None and gpu.index in listed.drain_gpus:
        yield "which is drained"
    if (gpu.used_mib or 0) > 1_024:
        yield "which is measured in use"


def _host(node: ReachableNode, fresh: list[RunEntry], memory_gib: float | None, cores: int | None) -> Iterator[str]:
    declared = [entry.declaration for entry in fresh] + [replica.entry.declaration for replica in node.replicas]
    on_cpus = [each for each in declared if each.gpu_class is None]
    if memory_gib is not None and sum(each.memory_gib or 0 for each in on_cpus) > memory_gib:
        yield f"{node.name} has {memory_gib} GiB, more is given away"
    if cores is not None and sum(each.cpu_cores or 0 for each in on_cpus) > cores:
        yield f"{node.name} has {cores} cores, more are given away"


def _floors(desired: Desired, observed: Observation, decision: Decision) -> Iterator[str]:
    """Promise 3: when something that serves is stopped, enough others serve, by the model's own policy."""
    stopped = {
        entry.id for orders in decision.orders.values() for entry in orders.entries if isinstance(entry, StopEntry)
    }
    stopped -= preempted(decision)
    serving: dict[str, list[ObservedReplica]] = defaultdict(list)
    for replica in _whole(observed):
        if replica.state is ReplicaState.READY and replica.entry.fleet == desired.fleet.name:
            serving[desired.model_of(replica.entry)].append(replica)
    for name, replicas in serving.items():
        model = desired.model_by_name.get(name)
        if model is None or not any(replica.id in stopped for replica in replicas):
            continue
        policy = desired.policy(model)
        away = policy.max_unavailable if policy.strategy is Strategy.SURGE else max(1, policy.max_unavailable)
        unknown = {
            replica.entry.ordinal
            for node in observed.unreachable
            for replica in (node.last.replicas if node.last else ())
            if desired.model_of(replica.entry) == name and replica.entry.fleet == desired.fleet.name
        }
        floor = model.replicas - away - sum(1 for ordinal in unknown if ordinal < model.replicas)
        available = [replica for replica in replicas if replica.state_for >= policy.min_ready]
        left = sum(1 for replica in available if replica.id not in stopped)
        if left < min(floor, len(available)):
            yield f"{name} is left with {left} serving replicas, {floor} must stay"


def _budgets(desired: Desired, observed: Observation, decision: Decision) -> Iterator[str]:
    """Everything in flight counts: no start beside another replica takes a model above its max_surge."""
    held = _held_by_slot(desired, observed)
    beside: dict[str, set[str]] = defaultdict(set)
    known = {replica.id for replicas in held.values() for replica in replicas}
    for orders in decision.orders.values():
        for entry in orders.entries:
            others = held.get((entry.model, entry.ordinal), []) if isinstance(entry, RunEntry) else []
            broken = any(replica.state in {ReplicaState.FAILED, ReplicaState.UNHEALTHY} for replica in others)
            if isinstance(entry, RunEntry) and entry.id not in known and others and not broken:
                beside[entry.model].add(entry.id)
    for name, ids in beside.items():
        started = len(ids)
        model = desired.model_by_name[name]
        wanted = decision.counts.get(name, model.replicas)  # one that is woken is wanted above its minimum
        excess = sum(len(replicas) - (ordinal < wanted) for (each, ordinal), replicas in held.items() if each == name)
        if excess + started > desired.policy(model).max_surge:
            yield f"{name} has {excess} replicas in flight, and {started} more start beside others"


def _pairs(desired: Desired, observed: Observation, decision: Decision) -> Iterator[str]:
    """Under surge what serves a wanted slot stops only when another has served it for min_ready."""
    stopped = {
        entry.id for orders in decision.orders.values() for entry in orders.entries if isinstance(entry, StopEntry)
    }
    taken = preempted(decision)
    for (name, ordinal), replicas in _held_by_slot(desired, observed).items():
        model = desired.model_by_name.get(name)
        if model is None or ordinal >= model.replicas or desired.policy(model).strategy is not Strategy.SURGE:
            continue
        serving = [replica for replica in replicas if replica.state is ReplicaState.READY]
        lasting = [
            replica
            for replica in serving
            if replica.id not in stopped and replica.state_for >= desired.policy(model).min_ready
        ]
        if any(replica.id in stopped - taken for replica in serving) and not lasting:
            yield f"{name}/{ordinal} is stopped before anything else serves it"


def _held_by_slot(desired: Desired, observed: Observation) -> dict[tuple[str, int], list[ObservedReplica]]:
    found: dict[tuple[str, int], list[ObservedReplica]] = defaultdict(list)
    for replica in _whole(observed):
        if replica.entry.fleet == desired.fleet.name:
            found[desired.model_of(replica.entry), replica.entry.ordinal].append(replica)
    return found


def _whole(observed: Observation) -> Iterator[ObservedReplica]:
    """Each replica once: one over several nodes serves when every node that answers says so, since the last did."""
    parts: dict[str, list[ObservedReplica]] = defaultdict(list)
    for _, replica in observed.replicas():
        parts[replica.id].append(replica)
    answering = {node.name for node in observed.reachable}
    for each in parts.values():
        expected = sum(1 for node in each[0].entry.placement.nodes if node in answering)
        least = min(each, key=lambda replica: (replica.state is ReplicaState.READY, replica.state_for))
        complete = len(each) >= expected or least.state is not ReplicaState.READY
        yield least if complete else least.model_copy(update={"state": ReplicaState.PENDING})
