"""What is wanted of each model, as the planner needs it: how many, under which policy, in which ways, how fresh."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from reconciler.domain.desired import resolve_rollout
from reconciler.domain.intent import IntentKind, newest
from reconciler.domain.model_spec import PriorityClass, Rollout
from reconciler.domain.observed import ReachableNode
from reconciler.placement.demand import demands
from reconciler.planning.scaling import scalable, scale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from reconciler.domain.desired import Desired, RolloutPolicy
    from reconciler.domain.intent import Intent
    from reconciler.domain.model_spec import ModelSpec, Profile
    from reconciler.domain.observed import Observation
    from reconciler.placement.demand import Demand
    from reconciler.planning.kept import Kept
    from reconciler.planning.scaling import Seen

RETRIES = (IntentKind.RETRY, IntentKind.COMMIT)
"""What lets a failed launch be tried again."""

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
    """Id of the newest retry, by a person or by a new commit."""
    holds_for: timedelta | None = None
    """How long the count holds if nothing happens; None where only an event changes it."""
    suspension: Intent | None = None
    """A person's word that nothing about it may change for now."""

    @property
    def is_suspended(self) -> bool:
        """Whether nothing about it may change."""
        return self.suspension is not None or (self.spec is not None and self.spec.suspend)

    @property
    def rank(self) -> tuple[int, str]:
        """Who is placed first: critical, then standard, then opportunistic, then by name."""
        return importance_rank(importance(self.spec)), self.name


def importance_rank(priority: PriorityClass) -> int:
    """0 for the most important class."""
    return _IMPORTANCE[priority]


def importance(spec: ModelSpec | None) -> PriorityClass:
    """A model's class; opportunistic when it is on demand or gone, else standard."""
    if spec is None:
        return PriorityClass.OPPORTUNISTIC
    return spec.priority or (PriorityClass.OPPORTUNISTIC if spec.is_on_demand else PriorityClass.STANDARD)


def aims_of(
    desired: Desired,
    observed: Observation,
    intents: Sequence[Intent],
    now: datetime,
    only: str | frozenset[str] | None,
    kept: Kept | None = None,
) -> dict[str, Aim]:
    """The aims of all models that are in the tree or run, or of `only` some, sorted by name.

    `kept` has those of an earlier plan, which are taken where nothing they follow from has changed.
    """
    names = {model.name for model in desired.models} | set(slots_held(desired, observed))
    wanted = names if only is None else {only} if isinstance(only, str) else only
    seen = scalable(desired, observed)
    said: dict[str | None, list[Intent]] = {None: []}  # by model: thousands may be awake at once
    for intent in intents:
        said.setdefault(intent.model, []).append(intent)
    aims = {}
    for name in sorted(names & wanted):
        about, its = (*said[None], *said.get(name, ())), seen.get(name, ())
        work_out = partial(_aim, desired, name, about, now, its)
        if kept is None:
            aims[name] = work_out()
        else:
            spec, replicas = desired.model_by_name.get(name), (each.replica for each in its)
            heard = (each.is_heard for each in its)
            aims[name] = kept.aim(name, (desired.fleet, spec, now, *about, *replicas, *heard), work_out)
    return aims


def slots_held(desired: Desired, observed: Observation) -> dict[str, int]:
    """Models that run or, on a node that does not answer, last ran; each with one more than its highest ordinal."""
    found: dict[str, int] = {}
    for each in observed.nodes:
        node = each if isinstance(each, ReachableNode) else each.last
        for replica in node.replicas if node is not None else ():
            if replica.entry.fleet == desired.fleet.name:
                model = desired.model_of(replica.entry)
                found[model] = max(replica.entry.ordinal + 1, found.get(model, 0))
    return found


def _aim(desired: Desired, name: str, intents: Sequence[Intent], now: datetime, seen: Sequence[Seen]) -> Aim:
    spec = desired.model_by_name.get(name)
    retry = _id(newest(intents, RETRIES, name, now))
    suspension = newest(intents, [IntentKind.SUSPEND], name, now)
    if spec is None:
        policy = resolve_rollout(desired.fleet.defaults.rollout, Rollout())
        return Aim(name, None, 0, policy, (), {}, None, None, retry, suspension=suspension)
    ways = demands(desired, spec)
    profiles_by_digest: dict[str, tuple[Profile, ...]] = {}
    for way in ways:
        for each in way.digests:
            profiles_by_digest[each] = (*profiles_by_digest.get(each, ()), way.profile)
    intent = _id(newest(intents, [IntentKind.RESTART], name, now))
    policy = desired.policy(spec)
    wanted = scale(desired, spec, seen, newest(intents, [IntentKind.WAKE], name, now), now)
    return Aim(
        name,
        spec,
        wanted.count,
        policy,
        ways,
        profiles_by_digest,
        spec.restart,
        intent,
        retry,
        holds_for=wanted.holds_for,
        suspension=suspension,
    )


def _id(intent: Intent | None) -> str | None:
    return None if intent is None else intent.id
