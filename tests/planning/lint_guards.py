"""The part of the second opinion that is about people's word: suspensions, limits, and who may take from whom."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from reconciler.domain.assignment import RunEntry, StopEntry
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Change, Decision

LEAVING = {ReplicaState.DRAINING, ReplicaState.STOPPING}
_RANK = {"critical": 0, "standard": 1, "opportunistic": 2}


def guards(desired: Desired, observed: Observation, decision: Decision, intents: Sequence[Intent]) -> Iterator[str]:
    """What must not happen without a person: suspended models, removals over the limits, nodes that were given up."""
    suspended = {model.name for model in desired.models if model.suspend}
    suspended |= {each.model for each in intents if each.kind == "suspend" and each.model}
    held = {replica.id: replica for _, replica in observed.replicas()}
    approved = {each.digest for each in intents if each.kind == "approve"}
    stopped: dict[str, int] = defaultdict(int)
    for orders in decision.orders.values():
        for entry in orders.entries:
            known = held.get(entry.id)
            model = desired.model_of(known.entry if known is not None else entry)  # type: ignore[arg-type]  # a fresh one is a run
            is_fresh = isinstance(entry, RunEntry) and (known is None or entry != known.entry)
            is_stop = isinstance(entry, StopEntry) and known is not None and known.state not in LEAVING
            if model in suspended and (is_fresh or is_stop):
                yield f"{entry.id} changes though {model} is suspended"
            if is_stop and model not in desired.model_by_name:
                stopped[model] += 1
    if not stopped:
        return
    if not desired.models and not desired.fleet.allow_empty:
        yield "an empty tree stops something"
    rows = desired.roster.models if desired.roster is not None else {}
    yield from (f"{name} is protected and stops" for name in stopped if name in rows and rows[name].protect)
    limit = desired.fleet.limits.models_removed
    before = len(rows) or len(desired.models) + len(stopped)
    may = limit if isinstance(limit, int) else before * int(limit[:-1]) // 100
    if len(stopped) > max(may, 1) and not approved:
        yield f"{len(stopped)} of {before} models stop, {limit} may"


def preempted(decision: Decision) -> set[str]:
    """What a more important model takes, which no policy of its own protects."""
    changes = (change for change in decision.plan.changes if change.reason is Reason.PREEMPTED)
    return {change.before.id for change in changes if change.before is not None}


def preemptions(desired: Desired, observed: Observation, decision: Decision) -> Iterator[str]:
    """Each taken for one slot below its minimum, of a higher class or from what is above a minimum, and to some use."""
    for change in decision.plan.changes:
        if change.reason is not Reason.PREEMPTED:
            continue
        takers = [each for each in decision.plan.changes if change.replica in each.schedule.on and each.after]
        takers = [each for each in takers if each.action is not Action.DELETE and each.model != change.model]
        if not takers:
            yield f"{change.replica} is taken for nobody"
        for taker in takers[:1]:
            yield from _preemption(desired, observed, taker, change)


def _preemption(desired: Desired, observed: Observation, taker: Change, taken: Change) -> Iterator[str]:
    mine, theirs = desired.model_by_name[taker.model], desired.model_by_name[taken.model]
    if int(taker.replica.rpartition("/")[2]) >= mine.replicas:
        yield f"{taker.replica} is not below its minimum and takes {taken.replica}"
    is_surplus = int(taken.replica.rpartition("/")[2]) >= theirs.replicas
    if _rank(mine) > _rank(theirs) or (_rank(mine) == _rank(theirs) and not is_surplus):
        yield f"{taker.replica} takes {taken.replica}, which is no less important"
    held: set[str] = set()
    for _, replica in observed.replicas():
        slot = f"{desired.model_of(replica.entry)}/{replica.entry.ordinal}"
        if replica.state not in LEAVING and slot not in taker.schedule.on:
            held |= replica.entry.placement.gpu_uuids
    if taker.after is not None and taker.after.gpu_uuids & held:
        yield f"{taker.replica} would not find its seat free when {taken.replica} has gone"


def _rank(model: ModelSpec) -> int:
    return _RANK[model.priority or ("opportunistic" if model.is_on_demand else "standard")]
