"""What is, model by model and node by node, in the light of what the planner just decided."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC
from types import MappingProxyType
from typing import TYPE_CHECKING

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ReachableNode, ReplicaState, UnreachableNode
from reconciler.domain.plan import Action, Reason
from reconciler.domain.status import NO_AGENT, FleetStatus, GpuUse, ModelState, ModelStatus, NodeStatus, ReplicaStatus
from reconciler.placement.demand import demands
from reconciler.planning.used_up import used_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.external import ExternalAnswer
    from reconciler.domain.intent import Intent
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.observed import NodeObservation, Observation, ObservedReplica
    from reconciler.domain.plan import Blocked, Change, Decision

UNKNOWN = "unknown"
"""State of a replica whose node does not answer."""

_DONE = {
    Action.CREATE: "created",
    Action.REPLACE: "replaced",
    Action.UPDATE: "updated",
    Action.DELETE: "stopped",
}
_NEEDS_A_PERSON = frozenset({"rollout/failed", "rollout/limits", "rollout/protected"})
_MOVING = frozenset({ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.DRAINING, ReplicaState.STOPPING})


@dataclass(frozen=True, slots=True)
class _Seen:
    """One replica on its node."""

    node: str
    replica: ObservedReplica
    is_heard: bool

    @property
    def is_ready(self) -> bool:
        return self.is_heard and self.replica.state is ReplicaState.READY


@dataclass(frozen=True, slots=True)
class _Decided:
    """What the planner made of one model."""

    changes: Sequence[Change]
    blocked: Sequence[Blocked]
    digests: frozenset[str]
    """Launch digests that are as desired."""
    count: int
    """Replicas wanted now."""
    suspended: str | None
    """By whom and how long, where a person said so."""


def status(
    desired: Desired,
    observed: Observation,
    decision: Decision,
    commit: str | None,
    externals: Mapping[str, ExternalAnswer] = MappingProxyType({}),
    intents: Sequence[Intent] = (),
    now: datetime | None = None,
) -> FleetStatus:
    """One row for every model of the tree and for every other one that still runs, sorted by name.

    `externals` says what external models answered, by name; of `intents` those are shown that hold at `now` and are
    not done.
    """
    used = () if now is None else used_up(desired, observed, intents, decision, now)
    held = tuple(each for each in intents if now is None or (each.is_live(now) and each not in used))
    suspended = {each.model: _suspension(each) for each in held if each.kind is IntentKind.SUSPEND}
    seen: dict[str, list[_Seen]] = defaultdict(list)
    for each in observed.nodes:
        node = each if isinstance(each, ReachableNode) else each.last
        for replica in node.replicas if node is not None else ():
            if replica.entry.fleet == desired.fleet.name:
                seen[desired.model_of(replica.entry)].append(_Seen(each.name, replica, isinstance(each, ReachableNode)))
    changes: dict[str, list[Change]] = defaultdict(list)
    for change in decision.plan.changes:
        changes[change.model].append(change)
    blocked: dict[str | None, list[Blocked]] = defaultdict(list)
    for block in decision.plan.blocked:
        blocked[block.model].append(block)
    names = sorted({model.name for model in desired.models} | set(seen))
    models = tuple(
        _external(name, externals.get(name))
        if _is_external(desired.model_by_name.get(name)) and not seen[name]
        else _model(
            desired.model_by_name.get(name),
            name,
            seen[name],
            _Decided(
                changes=changes[name],
                blocked=[*blocked[name], *(blocked[None] if _is_held_up(changes[name]) else ())],
                digests=_digests(desired, name),
                count=decision.counts.get(name, 0),
                suspended=suspended.get(name),
            ),
        )
        for name in names
    )
    observed_by_name = {each.name: each for each in observed.nodes}
    inventory = sorted(desired.nodes, key=lambda node: node.name)
    nodes = tuple(_node(node, observed_by_name.get(node.name)) for node in inventory)
    oldest_first = tuple(sorted(held, key=lambda each: (each.created_at, each.id)))
    return FleetStatus(commit=commit, models=models, nodes=nodes, intents=oldest_first, blocked=decision.plan.blocked)


def _suspension(intent: Intent) -> str:
    until = f"until {intent.expires_at:%Y-%m-%d %H:%M} UTC" if intent.expires_at else "until resumed"
    return f"{until}, by {intent.author}" + (f": {intent.reason}" if intent.reason else "")


def _is_held_up(changes: Sequence[Change]) -> bool:
    """Whether anything of it waits, so that what blocks the fleet as a whole is its concern."""
    return any(change.schedule.kind == "waiting" for change in changes)


def _digests(desired: Desired, name: str) -> frozenset[str]:
    spec = desired.model_by_name.get(name)
    ways = () if spec is None else demands(desired, spec)
    return frozenset(each for way in ways for each in way.digests)


def _is_external(spec: ModelSpec | None) -> bool:
    return spec is not None and spec.external is not None


def _external(name: str, answer: ExternalAnswer | None) -> ModelStatus:
    """Somebody else serves it: no replica is desired, and it waits while it does not answer as it should."""
    state = ModelState.READY if answer is None or answer.is_ready else ModelState.WAITING
    reason = f"external: {answer.message}" if answer is not None else "external: served by somebody else, not asked"
    return ModelStatus(name=name, desired=0, ready=0, updated=0, state=state, reason=reason)


def _model(spec: ModelSpec | None, name: str, seen: Sequence[_Seen], decided: _Decided) -> ModelStatus:
    leaving = {
        change.before.id
        for change in decided.changes
        if change.action in {Action.REPLACE, Action.DELETE}
        and change.before is not None
        and (change.after is None or change.after.id != change.before.id)
    }
    ready = _whole([each for each in seen if each.is_ready])
    updated = [
        each
        for each in ready
        if spec is not None
        and each.replica.entry.digest in decided.digests
        and each.replica.entry.restart == spec.restart
        and each.replica.id not in leaving
    ]
    state, reason = _judge(spec, seen, decided)
    return ModelStatus(
        name=name,
        desired=decided.count,
        ready=len(ready),
        updated=len(updated),
        state=state,
        reason=reason,
        since=max((each.replica.since.astimezone(UTC) for each in seen if each.replica.since), default=None),
        replicas=tuple(_replica(each) for each in sorted(seen, key=_by_ordinal)),
    )


def _whole(parts: Sequence[_Seen]) -> list[_Seen]:
    """One part of each replica of which every part is among these: one over several nodes is one, and serves whole."""
    by_id: dict[str, list[_Seen]] = {}
    for each in parts:
        by_id.setdefault(each.replica.id, []).append(each)
    return [found[0] for found in by_id.values() if len(found) >= len(found[0].replica.entry.placement.shards)]


def _by_ordinal(each: _Seen) -> tuple[int, str, str]:
    return each.replica.entry.ordinal, each.replica.id, each.node


def _judge(spec: ModelSpec | None, seen: Sequence[_Seen], decided: _Decided) -> tuple[ModelState, str | None]:
    """State and reason, what needs a person first."""
    changes, blocked = decided.changes, decided.blocked
    if spec is not None and spec.suspend:
        return ModelState.SUSPENDED, "suspend: true in its file"
    if decided.suspended is not None:
        return ModelState.SUSPENDED, decided.suspended
    if not seen and decided.count == 0:
        return ModelState.OFF, "on demand; nobody asks for it" if spec is not None and spec.is_on_demand else None
    stalled = next((block.message for block in blocked if block.rule in _NEEDS_A_PERSON), None)
    if stalled is not None:
        return ModelState.STALLED, stalled
    work = _work(seen, changes)
    if work is not None:
        return ModelState.RECONCILING, work
    waits = next(iter([block.message for block in blocked] + _waits(changes)), None)
    return (ModelState.READY, None) if waits is None else (ModelState.WAITING, waits)


def _work(seen: Sequence[_Seen], changes: Sequence[Change]) -> str | None:
    """What is under way, or would be at the next apply; None when nothing is."""
    moving = [each.replica for each in seen if each.is_heard and each.replica.state in _MOVING]
    if moving:
        words = [f"/{replica.entry.ordinal} {replica.stage or replica.state}" for replica in moving]
        return ", ".join(dict.fromkeys(words))
    due = [change for change in changes if change.action is not Action.NONE and change.schedule.kind == "now"]
    if due:
        return f"/{_ordinal(due[0])} {due[0].reason}, to be {_DONE[due[0].action]}"
    broken = [change for change in changes if change.reason is Reason.UNHEALTHY]
    return f"/{_ordinal(broken[0])} does not answer" if broken else None


def _waits(changes: Sequence[Change]) -> list[str]:
    return [
        f"/{_ordinal(change)}: {change.schedule.message}" for change in changes if change.schedule.kind == "waiting"
    ]


def _ordinal(change: Change) -> str:
    return change.replica.rpartition("/")[2]


def _replica(each: _Seen) -> ReplicaStatus:
    replica, entry = each.replica, each.replica.entry
    gpus = [gpu.index for shard in entry.placement.shards if shard.node == each.node for gpu in shard.gpus]
    return ReplicaStatus(
        id=entry.id,
        ordinal=entry.ordinal,
        node=each.node,
        gpus=tuple(gpus),
        state=replica.state if each.is_heard else UNKNOWN,
        routable=replica.routable and each.is_heard,
        address=replica.address,
        stage=replica.stage,
        failure=replica.failure,
        pid=replica.pid,
    )


def _node(node: Node, heard: NodeObservation | None) -> NodeStatus:
    last = heard.last if isinstance(heard, UnreachableNode) else heard
    classes = node.gpu_class_by_index()
    held: set[str] = set()
    if last is not None:
        held = {uuid for replica in last.replicas for uuid in replica.entry.placement.gpu_uuids}
        held |= {uuid for process in last.foreign for uuid in process.gpus}
    used: Mapping[str, int] = {
        gpu_class: sum(1 for gpu in last.gpus if gpu.gpu_class == gpu_class and gpu.uuid in held) if last else 0
        for gpu_class in sorted(set(classes))
    }
    gpus = {gpu_class: GpuUse(used=count, total=classes.count(gpu_class)) for gpu_class, count in used.items()}
    attended = isinstance(heard, ReachableNode) and heard.agent
    problem, since = (None, None) if attended else _silence(heard)
    return NodeStatus(
        name=node.name,
        reachable=attended,
        gpus=gpus,
        problem=problem,
        heard_at=since,
        gpu_problems=last.gpu_problems if last is not None else (),
    )


def _silence(heard: NodeObservation | None) -> tuple[str, datetime | None]:
    """Why the agent of a node does not answer, and when it last did."""
    match heard:
        case ReachableNode():
            return NO_AGENT, None
        case UnreachableNode():
            return heard.reason, heard.since
        case _:
            return "was not asked", None
