"""What is wanted of each model, as the planner needs it: how many, under which policy, in which ways, how fresh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.desired import resolve_rollout
from reconciler.domain.intent import IntentKind
from reconciler.domain.model_spec import PriorityClass, Rollout
from reconciler.domain.observed import ReachableNode
from reconciler.placement.demand import demands

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from reconciler.domain.desired import Desired, RolloutPolicy
    from reconciler.domain.intent import Intent
    from reconciler.domain.model_spec import ModelSpec, Profile
    from reconciler.domain.observed import Observation
    from reconciler.placement.demand import Demand

_IMPORTANCE: Mapping[PriorityClass, int] = {priority: rank for rank, priority in enumerate(PriorityClass)}


@dataclass(frozen=True, slots=True)
class Aim:
    """One model as it is wanted now."""

    name: str
    spec: ModelSpec | None
    """None when its file is gone and replicas still run."""
    count: int
    """Replicas wanted; 0 for an external model and for one that is gone."""
    policy: RolloutPolicy
    demands: tuple[Demand, ...]
    profiles_by_digest: Mapping[str, tuple[Profile, ...]]
    restart: str | None
    """The restart token."""
    intent: str | None
    """Id of the newest restart intent; None asks for nothing."""
    retry: str | None
    """Id of the newest retry intent."""

    @property
    def is_suspended(self) -> bool:
        """Whether nothing about it may change."""
        return self.spec is not None and self.spec.suspend

    @property
    def rank(self) -> tuple[int, str]:
        """Who is placed first: critical, then standard, then opportunistic, then by name."""
        return _IMPORTANCE[importance(self.spec)], self.name


def importance(spec: ModelSpec | None) -> PriorityClass:
    """A model's class; opportunistic when it is on demand or gone, else standard."""
    if spec is None:
        return PriorityClass.OPPORTUNISTIC
    on_demand = spec.scaling.min == 0 and (spec.scaling.max or 0) > 0
    return spec.priority or (PriorityClass.OPPORTUNISTIC if on_demand else PriorityClass.STANDARD)


def aims_of(
    desired: Desired, observed: Observation, intents: Sequence[Intent], now: datetime, only: str | None
) -> dict[str, Aim]:
    """The aims of all models that are in the tree or run, or of `only` one, sorted by name."""
    fleet = desired.fleet.name
    names = {model.name for model in desired.models} | set(_running(observed, fleet))
    return {name: _aim(desired, name, intents, now) for name in sorted(names) if only is None or name == only}


def _running(observed: Observation, fleet: str) -> Iterator[str]:
    """Models that run or, on a node that does not answer, last ran."""
    for each in observed.nodes:
        node = each if isinstance(each, ReachableNode) else each.last
        for replica in node.replicas if node is not None else ():
            if replica.entry.fleet == fleet:
                yield replica.entry.model


def _aim(desired: Desired, name: str, intents: Sequence[Intent], now: datetime) -> Aim:
    spec = desired.model_by_name.get(name)
    retry = _newest(IntentKind.RETRY, name, intents, now)
    if spec is None:
        policy = resolve_rollout(desired.fleet.defaults.rollout, Rollout())
        return Aim(name, None, 0, policy, (), {}, None, None, retry)
    ways = demands(desired, spec)
    profiles_by_digest: dict[str, tuple[Profile, ...]] = {}
    for way in ways:
        profiles_by_digest[way.digest] = (*profiles_by_digest.get(way.digest, ()), way.profile)
    intent = _newest(IntentKind.RESTART, name, intents, now)
    policy = desired.policy(spec)
    return Aim(name, spec, spec.replicas, policy, ways, profiles_by_digest, spec.restart, intent, retry)


def _newest(kind: IntentKind, model: str, intents: Sequence[Intent], now: datetime) -> str | None:
    """Id of the newest intent of a kind for a model; None when there is none or it has expired.

    An expired one asks for nothing, and an older one does not come back to life behind it.
    """
    ours = [intent for intent in intents if intent.kind is kind and intent.model in {None, model}]
    if not ours:
        return None
    newest = max(ours, key=lambda intent: (intent.created_at, intent.id))
    return None if newest.expires_at is not None and newest.expires_at <= now else newest.id
