"""What must change so that the fleet becomes what is desired: match, count, place, roll out, limit.

Level-triggered: everything is derived from the arguments, nothing is kept between two passes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.base import digest
from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action, Blocked, Decision, Plan, Reason
from reconciler.planning.aim import aims_of, slots_held
from reconciler.planning.baking import bakes_for
from reconciler.planning.brake import given_up, vanished
from reconciler.planning.counting import count
from reconciler.planning.draft import Draft, agree, spoken
from reconciler.planning.forecast import Forecast
from reconciler.planning.history import history
from reconciler.planning.impact import estimate
from reconciler.planning.leaving import leave_alone, retire
from reconciler.planning.limits import HeldBack, hold_back
from reconciler.planning.matching import Match, match
from reconciler.planning.orders import order
from reconciler.planning.parts import join
from reconciler.planning.placing import place
from reconciler.planning.rollout import roll_out
from reconciler.planning.starts import allowed_starts, starts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import Observation
    from reconciler.domain.placement import Placement
    from reconciler.domain.plan import Change
    from reconciler.planning.counting import ModelSlots
    from reconciler.planning.kept import Kept
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
    only: str | frozenset[str] | None = None,
    kept: Kept | None = None,
) -> Decision:
    """Decide one pass. `now` only tells expired intents; `only` plans some models and keeps the rest as it is held.

    `kept` saves work where many plans of nearly the same fleet are made; it is no part of what is decided.
    """
    aims = aims_of(desired, observed, intents, now, only, kept)
    matched = join(match(desired, observed, aims), observed)
    models = count(aims, matched, desired)
    held_back = _held_back(desired, observed, models, intents, now)
    draft = _draft(desired, Forecast(desired, observed, aims, given_up(observed, intents, now), kept), matched)
    draft.history = history(desired, observed, aims)
    at_once = allowed_starts(desired.fleet.limits, len(desired.nodes))
    draft.count_starts = lambda: starts_of(matched, models, at_once)
    draft.kept_back, draft.brake = held_back.why_by_model, _brake(desired, observed)
    draft.blocked.extend(held_back.blocked)

    for model in models:
        leave_alone(model, draft)
        retire(model, draft)
    place(models, draft)  # where there is no room, `preemption.preempt` may make some
    roll_out(models, draft)
    _say_brake(draft)

    changes = tuple(draft.changes[slot.name] for model in models for slot in model.slots)
    blocked = tuple(draft.blocked)
    impact = estimate(changes, aims, observed, at_once=at_once)
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
        expires_in=_expires_in(models, now),
        counts={model.aim.name: model.aim.count for model in models},
        settled=not blocked and all(_is_settled(model, draft) for model in models),
    )


def _held_back(
    desired: Desired,
    observed: Observation,
    models: Sequence[ModelSlots],
    intents: Sequence[Intent],
    now: datetime,
) -> HeldBack:
    """Only what would stop in this pass or a later one is held back: nothing is said of what has left already."""
    doomed = [
        model.aim.name
        for model in models
        if model.aim.spec is None
        and not model.aim.is_suspended
        and any(held.match is not Match.STOPPING for slot in model.slots for held in slot.held)
    ]
    if not doomed:
        return HeldBack({})
    approved = {each.digest for each in intents if each.kind is IntentKind.APPROVE and each.is_live(now)}
    digests = frozenset(digest for digest in approved if digest is not None)
    return hold_back(desired, slots_held(desired, observed), doomed, digests)


def _brake(desired: Desired, observed: Observation) -> str | None:
    names = vanished(desired, observed)
    return f"until {spoken(names)} {agree(names, 'answers', 'answer')} again" if names else None


def _say_brake(draft: Draft) -> None:
    """Only where it holds something up."""
    if draft.brake is not None and any(each.schedule.message == draft.brake for each in draft.changes.values()):
        message = (
            f"more than one node and over 30 % of them vanished within 60 s; nothing that serves changes {draft.brake}"
        )
        hint = "look at the network first; nodes that are gone for good: drain: true, or remove them from nodes/"
        draft.blocked.append(Blocked(rule="rollout/nodes-vanished", message=message, hint=hint))


def _draft(desired: Desired, forecast: Forecast, matched: Sequence[Held]) -> Draft:
    for held in matched:
        if held.match is Match.STOPPING:
            forecast.leaves(held)
    ids = frozenset(held.id for held in matched)
    stopping = frozenset(held.id for held in matched if held.match is Match.STOPPING)
    return Draft(desired.fleet.name, forecast, ids, stopping)


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


def _expires_in(models: Sequence[ModelSlots], now: datetime) -> timedelta | None:
    """When the next suspension is over, or the next count will not hold any more."""
    ends = (model.aim.suspension.expires_at for model in models if model.aim.suspension is not None)
    counts = (model.aim.holds_for for model in models if not model.aim.is_suspended)
    due = [at - now for at in ends if at is not None] + [each for each in counts if each is not None]
    return min(due, default=None)


def _look_again_in(models: Sequence[ModelSlots], draft: Draft) -> timedelta | None:
    """When what others wait for comes about although no node says so: min_ready, bake, a start that stalls."""
    due = [
        model.aim.policy.min_ready - held.replica.state_for
        for model in models
        if any(draft.changes[slot.name].schedule.kind == "waiting" for slot in model.slots)
        for slot in model.slots
        for held in slot.held
        if held.is_live and held.state is ReplicaState.READY and held.replica.state_for < model.aim.policy.min_ready
    ]
    due += [
        left
        for model in models
        if any(draft.changes[slot.name].schedule.kind == "waiting" for slot in model.slots)
        for left in bakes_for(model)
    ]
    due += [] if draft.next_turn_in is None else [draft.next_turn_in]
    return min(due, default=None)
