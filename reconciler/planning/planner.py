"""What must change so that the fleet becomes what is desired: match, count, place, roll out, limit.

Level-triggered: everything is derived from the arguments, nothing is kept between two passes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.base import digest
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action, Decision, Plan, Reason
from reconciler.planning.aim import aims_of
from reconciler.planning.counting import count
from reconciler.planning.draft import Draft
from reconciler.planning.forecast import Forecast
from reconciler.planning.impact import estimate
from reconciler.planning.leaving import leave_alone, retire
from reconciler.planning.limits import hold_back
from reconciler.planning.matching import Match, match
from reconciler.planning.orders import order
from reconciler.planning.placing import place
from reconciler.planning.rollout import roll_out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import Observation
    from reconciler.domain.placement import Placement
    from reconciler.domain.plan import Blocked, Change
    from reconciler.planning.counting import ModelSlots
    from reconciler.planning.matching import Held

_IN_MOTION = frozenset({ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.DRAINING, ReplicaState.STOPPING})
_AT_REST = frozenset({Reason.MATCHES, Reason.SUSPENDED})


def plan(
    desired: Desired,
    observed: Observation,
    intents: Sequence[Intent],
    now: datetime,
    *,
    commit: str | None = None,
    tree: str | None = None,
    only: str | None = None,
) -> Decision:
    """Decide one pass. `now` only tells expired intents; `only` plans one model and keeps the rest as it is held."""
    aims = aims_of(desired, observed, intents, now, only)
    matched = match(desired, observed, aims)
    models = count(aims, matched, desired.fleet.name)
    draft = _draft(desired, Forecast(desired, observed, aims), matched)

    for model in models:
        leave_alone(model, draft)
        retire(model, draft)
    # Preemption takes its place here: a model below its minimum takes room from a less important one.
    place(models, draft)
    roll_out(models, draft)
    hold_back(desired, draft)

    changes = tuple(draft.changes[slot.name] for model in models for slot in model.slots)
    blocked = tuple(draft.blocked)
    impact = estimate(changes, aims, observed)
    return Decision(
        plan=Plan(
            commit=commit,
            tree=tree,
            digest=digest(_essence(tree, changes, blocked)),
            complete=only is None,
            changes=changes,
            blocked=blocked,
            impact=impact,
        ),
        orders=order(desired, observed, matched, draft),
        look_again_in=_look_again_in(models, draft),
        settled=not blocked and all(_is_settled(model, draft) for model in models),
    )


def _draft(desired: Desired, forecast: Forecast, matched: Sequence[Held]) -> Draft:
    for held in matched:
        if held.match is Match.STOPPING:
            forecast.leaves(held)
    return Draft(desired.fleet.name, forecast, frozenset(held.id for held in matched))


def _essence(tree: str | None, changes: Sequence[Change], blocked: Sequence[Blocked]) -> Any:
    """All that a plan decides and nothing of its words, as plain JSON data."""
    return {
        "tree": tree,
        "changes": [
            [change.replica, change.reason, _place(change.before)]
            if change.action is Action.NONE
            else [
                change.replica,
                change.action,
                change.strategy,
                change.reason,
                [[field.field, field.before, field.after] for field in change.fields],
                change.schedule.kind,
                change.schedule.on,
                _place(change.before),
                _place(change.after),
            ]
            for change in changes
        ],
        "blocked": [[each.model, each.rule, each.digest] for each in blocked],
    }


def _place(placement: Placement | None) -> str | None:
    """The id, which stands for node and GPUs too, and the node for people who read it."""
    return None if placement is None else f"{placement.id} {'+'.join(placement.nodes)}"


def _is_settled(model: ModelSlots, draft: Draft) -> bool:
    """Whether every slot is as desired and nothing of the model is on its way in or out."""
    return all(
        draft.changes[slot.name].reason in _AT_REST and not any(_moves(held) for held in slot.held)
        for slot in model.slots
    )


def _moves(held: Held) -> bool:
    """Whether it is on its way in or out; one whose node does not answer is waited for by its slot, if at all."""
    return held.match is not Match.UNREACHABLE and held.state in _IN_MOTION


def _look_again_in(models: Sequence[ModelSlots], draft: Draft) -> timedelta | None:
    """When the next ready replica will have been ready for its min_ready, where something may wait for that."""
    due = [
        model.aim.policy.min_ready - held.replica.state_for
        for model in models
        if any(draft.changes[slot.name].schedule.kind == "waiting" for slot in model.slots)
        for slot in model.slots
        for held in slot.held
        if held.is_live and held.state is ReplicaState.READY and held.replica.state_for < model.aim.policy.min_ready
    ]
    return min(due, default=None)
