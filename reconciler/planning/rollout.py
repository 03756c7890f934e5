"""Outdated replicas that serve: replaced beside themselves or in place, as many at once as the policy allows.

Everything in flight counts against the budget. What waits gets the seat it will have, so that a plan which cannot be
finished says so before it begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReplicaState
from reconciler.placement.fit import find_seat
from reconciler.placement.refusal import refuse
from reconciler.planning.baking import baking
from reconciler.planning.draft import NOW, after_room, after_stop, agree, spoken, waiting
from reconciler.planning.elsewhere import outside
from reconciler.planning.in_place import fits_in_place, seats_in_place
from reconciler.planning.leaving import unserved
from reconciler.planning.repairing import stalled_slots
from reconciler.planning.restoring import say_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.plan import Schedule
    from reconciler.planning.counting import ModelSlots, Slot
    from reconciler.planning.draft import Draft
    from reconciler.planning.matching import Held


@dataclass(frozen=True, slots=True)
class _Pair:
    """A serving replica and the slot that is to have another."""

    slot: Slot
    before: Held


def roll_out(models: Sequence[ModelSlots], draft: Draft) -> None:
    """Decide every slot that is left: those whose replica serves and is outdated."""
    open_ = [model for model in models if any(slot.name not in draft.changes for slot in model.slots)]
    for model in sorted(open_, key=lambda each: each.aim.rank):
        pairs = [_Pair(slot, slot.served[0]) for slot in model.slots if slot.name not in draft.changes]
        gate = _gate(model, draft)
        if gate is not None:
            for pair in pairs:
                draft.replace(pair.slot, pair.before, model.aim.policy.strategy, gate, None)
            continue
        rest = [pair for pair in pairs if not _surge(model, pair, draft) and not _has_failed(pair, draft)]
        if model.aim.policy.strategy is Strategy.SURGE:
            _block_surge(model, rest, draft)
        elif rest:
            _replace_in_place(model, rest, draft)


def _gate(model: ModelSlots, draft: Draft) -> Schedule | None:
    """A replica as desired that is broken stops the rollout: what is wanted may itself be wrong."""
    if draft.brake is not None:
        return waiting(draft.brake)
    failed = stalled_slots(model, draft)
    if failed:
        return waiting(f"the rollout ended when {spoken(failed, model.aim.name)} failed", failed)
    broken = tuple(
        slot.name
        for slot in model.slots
        if (slot.keeper is not None and slot.keeper.state is ReplicaState.UNHEALTHY)
        or any(held.id in draft.runs for held in slot.failed)
    )
    if not broken:
        return None
    answer = agree(broken, "answers", "answer")
    return waiting(f"after {spoken(broken, model.aim.name)} {answer} again", broken)


def _surge(model: ModelSlots, pair: _Pair, draft: Draft) -> bool:
    """Start the successor beside, or enter what it waits for; False where there is no room beside, now or later."""
    policy, slot, aim, forecast = model.aim.policy, pair.slot, pair.slot.aim, draft.forecast
    if policy.strategy is Strategy.IN_PLACE or policy.max_surge == 0:
        return False
    bakes = baking(model, draft)
    is_within = model.budget.excess < policy.max_surge and bakes is None
    leaving = pair.before.replica.entry.placement.nodes
    failed_on = draft.history.failed_on(slot)  # where it serves elsewhere, and is tried on other nodes than these
    now, later = outside(forecast.now, failed_on), outside(forecast.later, failed_on)
    seat = find_seat(now, aim.demands, aim.name, leaving=leaving) if is_within else None
    if seat is not None:
        turn = draft.turn(slot, seat)
        after = draft.start(slot, seat) if turn is None else None
        schedule = NOW
        if turn is not None:
            # Not reserved, as below; shown where it would be beside what else waits.
            seat = find_seat(later, aim.demands, aim.name, leaving=leaving) or seat
            schedule, after = turn, draft.promise(slot, seat, reserve=False)
        elif after is None:
            schedule = waiting("after its last successor has stopped", (slot.name,))
            after = draft.promise(slot, seat, reserve=True)
        else:
            model.budget.excess += 1
    else:
        seat = find_seat(later, aim.demands, aim.name, leaving=leaving)
        if seat is None:
            return False
        after_others = bakes or _after_surges(model, slot, draft)
        schedule = after_room(forecast.in_the_way(seat), aim.name) if is_within else after_others
        # Not reserved: until its turn comes others may surge there; they will have left by then.
        after = draft.promise(slot, seat, reserve=False)
    forecast.leaves(pair.before)
    draft.replace(slot, pair.before, Strategy.SURGE, schedule, after)
    return True


def _has_failed(pair: _Pair, draft: Draft) -> bool:
    """Say so where what is wanted failed here before and finds no other node: it is not tried here again."""
    failure = draft.history.failure(pair.slot)
    if failure is None:
        return False
    waits = waiting("the same launch failed here")
    draft.replace(pair.slot, pair.before, pair.slot.aim.policy.strategy, waits, None)
    say_failed(pair.slot, failure, draft)
    return True


def _after_surges(model: ModelSlots, slot: Slot, draft: Draft) -> Schedule:
    """What uses the surge budget: replacements under way, and surplus replicas that have not left."""
    limit, name = model.aim.policy.max_surge, model.aim.name
    if len(slot.held) > 1:
        return waiting("after its last successor has stopped", (slot.name,))
    starting = [
        each.name
        for each in model.slots
        if each.is_wanted and (len(each.held) - len(each.unknown) > 1 or _starts_now(each, draft))
    ]
    if starting:
        pace = "one surge at a time" if limit == 1 else f"{limit} surges at a time"
        return waiting(f"after {spoken(starting, name)} {agree(starting, 'is', 'are')} ready ({pace})", starting)
    surplus = [each.name for each in model.slots if not each.is_wanted]
    return after_stop(surplus, name)


def _starts_now(slot: Slot, draft: Draft) -> bool:
    change = draft.changes.get(slot.name)
    return bool(slot.held) and change is not None and change.after is not None and change.after.id in draft.runs


def _block_surge(model: ModelSlots, pairs: Sequence[_Pair], draft: Draft) -> None:
    if not pairs:
        return
    if model.aim.policy.max_surge == 0:
        why = "rollout.max_surge is 0 and the strategy is surge"
    else:
        why = refuse(draft.forecast.later, model.aim.demands).shortage
    for pair in pairs:
        draft.replace(pair.slot, pair.before, Strategy.SURGE, waiting("no room beside the running ones"), None)
    names = spoken([pair.slot.name for pair in pairs])
    itself = agree(pairs, "itself", "themselves")
    # In place may find no room either: then it is no way out, and only less or more room is.
    works = fits_in_place([(each.slot, each.before) for each in pairs], draft)
    room = refuse(draft.forecast.later, model.aim.demands).hint
    hint = "rollout.strategy: surge_or_in_place, or in_place" if works else room
    draft.block(pairs[0].slot, "rollout/no-surge-room", f"{names} cannot be replaced beside {itself}: {why}", hint)


def _replace_in_place(model: ModelSlots, pairs: Sequence[_Pair], draft: Draft) -> None:
    """Stop as many as may be away, and only if every one of them can be placed at the end."""
    found = seats_in_place([(each.slot, each.before) for each in pairs], draft)
    if isinstance(found, str):
        for pair in pairs:
            draft.replace(pair.slot, pair.before, Strategy.IN_PLACE, waiting("its successor would find no room"), None)
        message = f"{spoken([pair.slot.name for pair in pairs])} cannot be replaced in place: {found}"
        hint = refuse(draft.forecast.later, model.aim.demands).hint
        draft.block(pairs[0].slot, "inventory/overcommitted", message, hint)
        return
    budget = model.budget
    for slot, before, seat in found:
        others = draft.still_there(seat, before)
        after = draft.promise(slot, seat, reserve=True)
        bakes = baking(model, draft)
        if bakes is not None:
            draft.replace(slot, before, Strategy.IN_PLACE, bakes, after)
        elif others:  # its own stop would not make room yet, and it would be away for longer than it loads
            draft.replace(slot, before, Strategy.IN_PLACE, after_room(others, model.aim.name), after)
        elif budget.spares(before, budget.in_place_floor):
            turn = draft.turn(slot, seat)
            if turn is None:
                draft.clear(model, slot, before, seat)
            draft.replace(slot, before, Strategy.IN_PLACE, turn or NOW, after)
        else:
            on = unserved(model, draft)
            pace = f"{budget.away} of {model.aim.count} may be away"
            schedule = waiting(f"after {spoken(on, model.aim.name)} {agree(on, 'is', 'are')} ready ({pace})", on)
            draft.replace(slot, before, Strategy.IN_PLACE, schedule, after)
