"""What is left alone and what stops: surplus, what is gone from the tree, duplicates, and the old half of a pair.

Nothing here starts anything. What serves stops only where enough others serve (promise 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.base import format_duration
from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action, Reason
from reconciler.planning.adapters import tell_adapters
from reconciler.planning.draft import NOW, Successor, agree, spoken, waiting
from reconciler.planning.matching import Match
from reconciler.planning.restoring import say_failed, stand_in

if TYPE_CHECKING:
    from reconciler.domain.plan import Schedule
    from reconciler.planning.counting import ModelSlots, Slot
    from reconciler.planning.draft import Draft
    from reconciler.planning.matching import Held

_COMING = frozenset({ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.READY})


def leave_alone(model: ModelSlots, draft: Draft) -> None:
    """Enter the slots about which nothing is to change: as desired, suspended, or on a node that does not answer."""
    for slot in model.slots:
        if slot.sole is not None and not model.aim.is_suspended:
            _enter_keeper(slot, slot.sole, draft)
        elif model.aim.is_suspended:
            placement = slot.held[0].replica.entry.placement if slot.held else None
            draft.decide(slot, Action.NONE, Reason.SUSPENDED, before=placement, after=placement)
        elif slot.unknown:
            placement = slot.unknown[0].replica.entry.placement
            nodes = sorted({held.node for held in slot.unknown})
            schedule = waiting(f"{' and '.join(nodes)} {agree(nodes, 'does', 'do')} not answer", nodes)
            draft.decide(slot, Action.NONE, Reason.UNREACHABLE, before=placement, after=placement, schedule=schedule)


def retire(model: ModelSlots, draft: Draft) -> None:
    """Stop what is not wanted, and enter every slot whose wanted replica runs."""
    slots = [slot for slot in model.slots if slot.name not in draft.changes]
    for slot in reversed(slots):  # the highest ordinal goes first
        if not slot.is_wanted:
            _retire_surplus(model, slot, draft)
    for slot in slots:
        if slot.is_wanted and slot.keeper is not None:
            _settle(model, slot, slot.keeper, draft)
        elif slot.is_wanted:
            _shed(model, slot, draft)


def unserved(model: ModelSlots, draft: Draft) -> tuple[str, ...]:
    """The wanted slots in which no replica serves, or whose replica was told to stop in this pass."""
    return tuple(
        slot.name
        for slot in model.slots
        if slot.is_wanted and not any(held.is_available(model.aim) and held.id not in draft.stops for held in slot.held)
    )


def _retire_surplus(model: ModelSlots, slot: Slot, draft: Draft) -> None:
    running = [held for held in slot.held if held.match is not Match.STOPPING]
    if not running:
        placement = slot.held[0].replica.entry.placement
        draft.decide(slot, Action.NONE, Reason.STOPPING, before=placement, after=placement)
        return
    floor = model.budget.surplus_floor
    schedule = NOW
    for held in running:
        if model.aim.name in draft.kept_back:
            schedule = waiting(draft.kept_back[model.aim.name])
        elif held.state is not ReplicaState.READY:
            draft.stop(model, held)
        elif draft.brake is not None:
            schedule = waiting(draft.brake)
        elif model.budget.spares(held, floor):
            draft.stop(model, held)
        else:
            schedule = _until_spared(model, held, floor, draft)
    spec = model.aim.spec
    reason = Reason.REMOVED if spec is None else Reason.SCALED_DOWN
    message = "somebody else serves it now" if spec is not None and spec.external is not None else None
    placement = running[0].replica.entry.placement
    draft.decide(slot, Action.DELETE, reason, before=placement, schedule=schedule, message=message)


def _settle(model: ModelSlots, slot: Slot, keeper: Held, draft: Draft) -> None:
    """Keep the wanted replica, and stop the others of its slot as soon as it serves in their place."""
    extras = [held for held in slot.held if held is not keeper and held.match is not Match.STOPPING]
    if not extras:
        _enter_keeper(slot, keeper, draft)
        return
    floor = model.budget.pair_floor
    schedule = NOW
    for held in extras:
        may_go = keeper.is_available(model.aim) and model.budget.spares(held, floor)
        if held.state is ReplicaState.READY and draft.brake is not None:
            schedule = waiting(draft.brake)
        elif may_go or held.state is not ReplicaState.READY:
            draft.stop(model, held)
        elif keeper.is_available(model.aim):
            schedule = _until_spared(model, held, floor, draft)
        else:
            schedule = waiting(_until_keeper_serves(slot, keeper), (slot.name,))
            if keeper.state in _COMING and model.budget.will_spare(held, floor):
                draft.forecast.leaves(held)
    outdated = next((held for held in extras if held.mismatch is not None), None)
    if outdated is not None:
        entry = keeper.replica.entry
        draft.replace(slot, outdated, Strategy.SURGE, schedule, Successor(entry.placement, entry.declaration))
    else:
        placement = extras[0].replica.entry.placement
        draft.decide(slot, Action.DELETE, Reason.DUPLICATE, before=placement, schedule=schedule)


def _shed(model: ModelSlots, slot: Slot, draft: Draft) -> None:
    """Stop what serves nobody and is past its aim, and duplicates; the slot itself is decided when it is placed."""
    kept = stand_in(slot, draft)
    for held in (*slot.spent, *slot.failed[1:]):
        if held is not kept:
            draft.stop(model, held)
    failure = draft.history.failure(slot)
    if kept is not None and failure is not None:
        placement = kept.replica.entry.placement
        reason = Reason.DIED if kept.match is Match.FAILED else Reason.STARTING
        draft.decide(slot, Action.NONE, reason, before=placement, after=placement, message=kept.replica.failure)
        say_failed(slot, failure, draft)
    for held in slot.served[1:] if draft.brake is None else ():
        if slot.served[0].is_available(model.aim) and model.budget.spares(held, model.budget.pair_floor):
            draft.stop(model, held)
            draft.decide(slot, Action.DELETE, Reason.DUPLICATE, before=held.replica.entry.placement)


def _enter_keeper(slot: Slot, keeper: Held, draft: Draft) -> None:
    if slot.is_wanted and tell_adapters(slot, keeper, draft):
        return
    reasons = {ReplicaState.READY: Reason.MATCHES, ReplicaState.UNHEALTHY: Reason.UNHEALTHY}
    placement = keeper.replica.entry.placement
    reason = reasons.get(keeper.state, Reason.STARTING)
    draft.decide(slot, Action.NONE, reason, before=placement, after=placement, message=keeper.replica.failure)


def _until_spared(model: ModelSlots, held: Held, floor: int, draft: Draft) -> Schedule:
    if model.budget.will_spare(held, floor):
        draft.forecast.leaves(held)
    missing = unserved(model, draft)
    after = f", after {spoken(missing, model.aim.name)}" if missing else ""
    return waiting(f"until {floor} of {model.aim.count} serve without it{after}", missing)


def _until_keeper_serves(slot: Slot, keeper: Held) -> str:
    if keeper.state is ReplicaState.READY:
        return f"after its replacement has been ready for {format_duration(slot.aim.policy.min_ready)}"
    if keeper.state is ReplicaState.UNHEALTHY:
        return "after its replacement answers again"
    return "its replacement is starting"
