"""Missing replicas: created where there is room, repaired where they died, and why where neither is possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.observed import ReplicaState
from reconciler.placement.fit import Preference, find_seat
from reconciler.placement.refusal import refuse
from reconciler.placement.spread import Want, packed
from reconciler.planning.draft import NOW, after_stop, spoken, waiting
from reconciler.planning.obstacles import not_heard
from reconciler.planning.preemption import preempt
from reconciler.planning.repairing import go_on, repair, stalled_slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.planning.counting import ModelSlots, Slot
    from reconciler.planning.draft import Draft


def place(models: Sequence[ModelSlots], draft: Draft) -> None:
    """Fill every wanted slot in which nothing serves and nothing is coming up.

    Important models first, and of each class those of which nothing serves: starts may have to wait for their turn.
    """
    open_ = [model for model in models if any(slot.name not in draft.changes for slot in model.slots)]
    open_.sort(key=lambda each: (each.aim.rank[0], each.budget.available > 0, each.aim.rank))
    wants = [Want(each.aim.name, each.aim.demands, len(_missing(each, draft))) for each in open_]
    wants = [want for want in wants if want.count]
    pack = packed(draft.forecast.later, wants) if wants else frozenset()
    for model in open_:
        preference = Preference.PACK if model.aim.name in pack else Preference.SPREAD
        stalled = stalled_slots(model, draft)
        full = False
        for slot in model.slots:
            if slot.name in draft.changes:
                continue
            failure = draft.history.failure(slot)
            if slot.failed:
                repair(model, slot, slot.failed[0], draft, models)
            elif failure is not None:
                go_on(model, slot, failure, draft)
            elif slot.served:
                continue  # it is replaced, not filled
            elif stalled and not _serves_somewhere(model):
                schedule = waiting(f"after {spoken(stalled, model.aim.name)}, where the same launch failed", stalled)
                draft.fill(slot, schedule)
            else:
                full = _fill(model, slot, draft, preference, full=full)
                if slot in draft.unplaced:
                    full = full and not _make_room(slot, models, draft)
        _explain(model, [slot for slot in draft.unplaced if slot.aim is model.aim], draft)


def _missing(model: ModelSlots, draft: Draft) -> list[Slot]:
    """Slots in which nothing serves and nothing failed: those that need a place."""
    return [slot for slot in model.slots if slot.name not in draft.changes and not slot.failed and not slot.served]


def _serves_somewhere(model: ModelSlots) -> bool:
    """Whether a replica as desired serves: then a failure says more of a node than of the launch."""
    return any(slot.keeper is not None and slot.keeper.state is ReplicaState.READY for slot in model.slots)


def _fill(model: ModelSlots, slot: Slot, draft: Draft, preference: Preference, *, full: bool) -> bool:
    """Start a replica for a slot in which nothing serves; True when there is no room for this model any more."""
    forecast, aim = draft.forecast, slot.aim
    is_held_back = model.waits_for_stop(slot)
    leaving = [node for held in slot.held for node in held.replica.entry.placement.nodes]
    seat = None
    if not is_held_back and not full:
        seat = find_seat(forecast.now, aim.demands, aim.name, preference, leaving=leaving)
    if seat is not None:
        turn = draft.turn(slot, seat)
        after = draft.start(slot, seat) if turn is None else None
        if after is None:
            schedule = turn or after_stop((slot.name,), aim.name)
            draft.fill(slot, schedule, draft.promise(slot, seat, reserve=True))
        else:
            model.budget.excess += bool(slot.held)
            draft.fill(slot, NOW, after)
        return False
    seat = None if full else find_seat(forecast.later, aim.demands, aim.name, preference)
    if seat is not None:
        on = (slot.name,) if is_held_back else forecast.in_the_way(seat)
        draft.fill(slot, after_stop(on, aim.name), draft.promise(slot, seat, reserve=True))
        return False
    draft.unplaced.append(slot)
    draft.fill(slot, waiting("no node has room"))
    return not is_held_back


def _make_room(slot: Slot, models: Sequence[ModelSlots], draft: Draft) -> bool:
    """Take room from less important models, if that is certain to help."""
    taken = preempt(slot, models, draft)
    if taken is not None:
        draft.unplaced.remove(slot)
        draft.fill(slot, *taken)
    return taken is not None


def _explain(model: ModelSlots, unplaced: Sequence[Slot], draft: Draft) -> None:
    if not unplaced:
        return
    names = spoken([slot.name for slot in unplaced])
    silent = not_heard(draft.forecast.later, draft.forecast.observed, model.aim.demands)
    if silent is not None:
        draft.block(
            unplaced[0], "rollout/not-heard", f"nothing is known of room for {names}: {silent.text}", silent.hint
        )
        for slot in unplaced:
            waits = {"schedule": waiting("no node that could run it answers")}
            draft.changes[slot.name] = draft.changes[slot.name].model_copy(update=waits)
        return
    refusal = refuse(draft.forecast.later, model.aim.demands)
    draft.block(unplaced[0], "inventory/overcommitted", f"no room for {names}: {refusal.message}", refusal.hint)
