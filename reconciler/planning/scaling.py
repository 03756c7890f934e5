"""How many replicas a model wants now: its minimum, what it is woken for, and what its scaler made of it.

A replica that was loaded on demand goes when nothing has been in flight for `idle_timeout`. Where that cannot be read
it stays: failing to read never stops anything (promise 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.observed import ReachableNode, ReplicaState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.observed import Observation, ObservedReplica

_LEAVING = frozenset({ReplicaState.DRAINING, ReplicaState.STOPPING})
_COMING = frozenset({ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.UNHEALTHY})


@dataclass(frozen=True, slots=True)
class Seen:
    """One replica of a model that may scale."""

    replica: ObservedReplica
    is_heard: bool


@dataclass(frozen=True, slots=True)
class Scale:
    """A count, and how long it holds if nothing happens."""

    count: int
    holds_for: timedelta | None = None
    """None where only an event changes it."""


def scalable(desired: Desired, observed: Observation) -> Mapping[str, Sequence[Seen]]:
    """The replicas of every model whose count is not simply its minimum; nothing is looked at where there is none."""
    found: dict[str, list[Seen]] = {model.name: [] for model in desired.models if may_scale(model)}
    if found:
        for name, seen in _walk(desired, observed):
            if name in found:
                found[name].append(seen)
    return found


def scale(desired: Desired, spec: ModelSpec, seen: Sequence[Seen], wake: Intent | None, now: datetime) -> Scale:
    """Replicas wanted now; `wake` is the newest one that holds."""
    low = spec.replicas
    high = max(low, low if spec.scaling.max is None else spec.scaling.max)
    if not may_scale(spec):
        return Scale(low)
    timeout = desired.idle_timeout(spec) if spec.is_on_demand else None
    kept = [each for each in seen if _is_kept(each, timeout)]
    highest = max((each.replica.entry.ordinal + 1 for each in kept), default=0)
    floor = low if wake is None else max(low, 1)
    if spec.scaling.target is None:
        high, highest = max(low, 1), min(highest, 1)  # one is loaded, however high max is
    count = min(high, max(floor, highest))
    ends = [timeout - _rest(each) for each in kept if timeout is not None and _ends(each)]
    if wake is not None and wake.expires_at is not None:
        ends.append(wake.expires_at - now)
    return Scale(count, min(ends, default=None))


def may_scale(spec: ModelSpec) -> bool:
    """On demand, or with a scaler between two bounds; without `target` nothing scales and the count is the minimum."""
    if spec.external is not None:
        return False
    return spec.is_on_demand or (spec.scaling.target is not None and (spec.scaling.max or 0) > spec.scaling.min)


def _is_kept(each: Seen, timeout: timedelta | None) -> bool:
    replica = each.replica
    if not each.is_heard:
        return True
    if replica.state in _LEAVING:
        return False
    if timeout is None or replica.state in _COMING or not _ends(each):
        return True
    return _rest(each) < timeout


def _ends(each: Seen) -> bool:
    """Whether it is known for how long it has been of no use."""
    state = each.replica.state
    idle = state is ReplicaState.READY and each.replica.idle_for is not None
    return each.is_heard and (idle or state is ReplicaState.FAILED)


def _rest(each: Seen) -> timedelta:
    """For how long it has been of no use."""
    replica = each.replica
    return replica.state_for if replica.idle_for is None else min(replica.idle_for, replica.state_for)


def _walk(desired: Desired, observed: Observation) -> Iterator[tuple[str, Seen]]:
    for each in observed.nodes:
        is_heard = isinstance(each, ReachableNode)
        node = each if isinstance(each, ReachableNode) else each.last
        for replica in node.replicas if node is not None else ():
            if replica.entry.fleet == desired.fleet.name:
                yield desired.model_of(replica.entry), Seen(replica, is_heard)
