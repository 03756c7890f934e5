"""Missing replicas: created where there is room, repaired where they died, and why where neither is possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action, Reason
from reconciler.placement.fit import Preference, find_seat
from reconciler.placement.refusal import refuse
from reconciler.placement.spread import Want, packed
from reconciler.planning.draft import NOW, spoken, waiting
from reconciler.planning.history import is_asked_again
from reconciler.planning.preemption import preempt
from reconciler.planning.restoring import after_failure, give_way, restore, say_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.plan import Schedule
    from reconciler.planning.counting import ModelSlots, Slot
    from reconciler.planning.draft import Draft, Successor
    from reconciler.planning.history import Failure
    from reconciler.planning.matching import Held

CRASH_LOOP = 3
"""Launches in a row that ended by themselves before the planner leaves the rest to the agent's own back-off.

One or two are bad luck; the third says that launching at once once more will not help.
"""


def place(models: Sequence[ModelSlots], draft: Draft) -> None:
    """Fill every wanted slot in which nothing serves and nothing is coming up; important models first."""
    open_ = [model for model in models if any(slot.name not in draft.changes for slot in model.slots)]
    open_.sort(key=lambda each: each.aim.rank)
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
                _try_again(model, slot, slot.failed[0], draft)
            elif failure is not None:
                _after_failure(model, slot, failure, draft)
            elif slot.served:
                continue  # it is replaced, not filled
            elif stalled and not _serves_somewhere(model):
                schedule = waiting(f"after {spoken(stalled, model.aim.name)}, where the same launch failed", stalled)
                _enter(slot, schedule, None, draft)
            else:
                full = _fill(model, slot, draft, preference, full=full)
                if slot in draft.unplaced:
                    full = full and not _make_room(slot, models, draft)
        _explain(model, [slot for slot in draft.unplaced if slot.aim is model.aim], draft)


def _after_failure(model: ModelSlots, slot: Slot, failure: Failure, draft: Draft) -> None:
    """What is wanted failed here: what serves goes on, else what served before is started again."""
    say_failed(slot, failure, draft)
    if not slot.served and not restore(model, slot, failure, draft):
        _enter(slot, waiting("the same launch failed here"), None, draft)


def _missing(model: ModelSlots, draft: Draft) -> list[Slot]:
    """Slots in which nothing serves and nothing failed: those that need a place."""
    return [slot for slot in model.slots if slot.name not in draft.changes and not slot.failed and not slot.served]


def stalled_slots(model: ModelSlots, draft: Draft) -> tuple[str, ...]:
    """Slots whose wanted replica failed and is not tried again by itself: they end the rollout of the model."""
    return tuple(
        slot.name
        for slot in model.slots
        if slot.is_wanted and not slot.is_frozen and _is_stalled(slot, draft.history.failure(slot))
    )


def _is_stalled(slot: Slot, failure: Failure | None) -> bool:
    if slot.failed:
        return not _is_tried_again(slot.failed[0], slot)
    return failure is not None and slot.keeper is None


def _serves_somewhere(model: ModelSlots) -> bool:
    """Whether a replica as desired serves: then a failure says more of a node than of the launch."""
    return any(slot.keeper is not None and slot.keeper.state is ReplicaState.READY for slot in model.slots)


def _is_tried_again(held: Held, slot: Slot) -> bool:
    """A person asked since it was sent, or it served before and has not died too often since."""
    return is_asked_again(slot.aim, held.replica.entry.retry) or (
        held.replica.ever_ready and held.replica.failures_in_a_row < CRASH_LOOP
    )


def _try_again(model: ModelSlots, slot: Slot, held: Held, draft: Draft) -> None:
    """Launch a failed replica again in its place, under its id, or leave it as it is and say why."""
    entry, replica = held.replica.entry, held.replica
    reason = Reason.DIED if replica.ever_ready else Reason.FAILED
    failure = replica.failure or "it ended without a word"
    serving = next(iter(slot.served), None)  # it was to replace this one, which serves on
    before = serving.replica.entry.placement if serving else entry.placement
    if _is_tried_again(held, slot):
        update = {"attempt": entry.attempt + 1, "retry": slot.aim.retry, "ready_timeout": slot.aim.policy.ready_timeout}
        draft.runs[entry.id] = entry.model_copy(update=update)
        strategy = Strategy.SURGE if serving else Strategy.IN_PLACE
        after = entry.placement
        draft.decide(slot, Action.REPLACE, reason, before=before, after=after, strategy=strategy, message=failure)
        return
    if serving is not None or not give_way(model, slot, held, draft):
        draft.decide(slot, Action.NONE, reason, before=before, after=before, message=failure)
    told = f"failed {replica.failures_in_a_row} times in a row (crash loop)" if replica.ever_ready else "failed"
    draft.block(slot, "rollout/failed", f"{slot.name} on {held.node} {told}: {failure}", after_failure(slot.aim.name))


def _fill(model: ModelSlots, slot: Slot, draft: Draft, preference: Preference, *, full: bool) -> bool:
    """Start a replica for a slot in which nothing serves; True when there is no room for this model any more."""
    forecast, aim = draft.forecast, slot.aim
    is_held_back = model.waits_for_stop(slot)
    leaving = [node for held in slot.held for node in held.replica.entry.placement.nodes]
    seat = None
    if not is_held_back and not full:
        seat = find_seat(forecast.now, aim.demands, aim.name, preference, leaving=leaving)
    if seat is not None:
        after = draft.start(slot, seat)
        if after is None:
            _enter(slot, _after_stop((slot.name,), aim.name), draft.promise(slot, seat, reserve=True), draft)
        else:
            model.budget.excess += bool(slot.held)
            _enter(slot, NOW, after, draft)
        return False
    seat = None if full else find_seat(forecast.later, aim.demands, aim.name, preference)
    if seat is not None:
        on = (slot.name,) if is_held_back else forecast.in_the_way(seat)
        _enter(slot, _after_stop(on, aim.name), draft.promise(slot, seat, reserve=True), draft)
        return False
    draft.unplaced.append(slot)
    _enter(slot, waiting("no node has room"), None, draft)
    return not is_held_back


def _make_room(slot: Slot, models: Sequence[ModelSlots], draft: Draft) -> bool:
    """Take room from less important models, if that is certain to help."""
    taken = preempt(slot, models, draft)
    if taken is not None:
        draft.unplaced.remove(slot)
        _enter(slot, *taken, draft)
    return taken is not None


def _after_stop(on: tuple[str, ...], model: str) -> Schedule:
    return waiting(f"after {spoken(on, model)} has stopped", on)


def _enter(slot: Slot, schedule: Schedule, after: Successor | None, draft: Draft) -> None:
    """A slot that still holds an outdated replica on its way out is being replaced, any other is created."""
    outdated = next((held for held in slot.held if held.mismatch is not None), None)
    if outdated is not None:
        draft.replace(slot, outdated, Strategy.IN_PLACE, schedule, after)
    else:
        placement = after.placement if after else None
        draft.decide(slot, Action.CREATE, Reason.NEW, after=placement, schedule=schedule)


def _explain(model: ModelSlots, unplaced: Sequence[Slot], draft: Draft) -> None:
    if not unplaced:
        return
    names = spoken([slot.name for slot in unplaced])
    refusal = refuse(draft.forecast.later, model.aim.demands)
    draft.block(unplaced[0], "inventory/overcommitted", f"no room for {names}: {refusal.message}", refusal.hint)
