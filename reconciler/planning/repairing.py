"""Slots in which a launch failed: launched again there or elsewhere, given back to what served before, or held.

Which of these it is follows from whether it ever served, whether the same launch serves elsewhere, and whether its GPUs
can take it; `planning.elsewhere` says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Strategy
from reconciler.domain.plan import Action, Reason
from reconciler.planning.draft import waiting
from reconciler.planning.elsewhere import Other, has_other_place, other, try_elsewhere, unfit
from reconciler.planning.history import is_asked_again
from reconciler.planning.preemption import preempt
from reconciler.planning.restoring import block_failed, failed_where, give_way, restore, say_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.planning.counting import ModelSlots, Slot
    from reconciler.planning.draft import Draft
    from reconciler.planning.history import Failure
    from reconciler.planning.matching import Held

CRASH_LOOP = 3
"""Launches in a row that ended by themselves before the planner leaves the rest to the agent's own back-off.

One or two are bad luck; the third says that launching at once once more will not help.
"""


def repair(model: ModelSlots, slot: Slot, held: Held, draft: Draft, models: Sequence[ModelSlots]) -> None:
    """Launch a failed replica again, under its id where its GPUs can take it, else elsewhere; or say why not.

    Where its GPUs are lost and no other is free, less important ones of `models` give way as for a model without room.
    """
    replica, placement = held.replica, held.replica.entry.placement
    reason = Reason.DIED if replica.ever_ready else Reason.FAILED
    failure = replica.failure or "it ended without a word"
    is_due, lost = _is_tried_again(held, slot), unfit(placement, draft)
    place = Other(draft.history.failed_on(slot), slot.aim.demands) if is_due and lost is not None else None
    if not is_due:
        place = other(model, slot, draft)
    told = failure if lost is None else f"{failure}; {lost.why}"
    if place is not None and try_elsewhere(model, slot, place, draft, reason=reason, message=told):
        return
    serving = next(iter(slot.served), None)  # it was to replace this one, which serves on
    if is_due and lost is not None and lost.is_gpu and serving is None:
        taken = preempt(slot, models, draft)
        if taken is not None:
            schedule, after = taken
            draft.stop(model, held)  # else its agent would launch it again, there, while room is made
            draft.decide(
                slot,
                Action.REPLACE,
                reason,
                before=placement,
                after=after.placement,
                schedule=schedule,
                strategy=Strategy.IN_PLACE,
                message=told,
            )
            return
    before = serving.replica.entry.placement if serving else placement
    # A node that takes no new starts may prove itself on what a person asks for; a GPU that is lost cannot.
    if is_due and (lost is None or (not lost.is_gpu and is_asked_again(slot.aim, replica.entry.retry))):
        draft.relaunch(slot, replica.entry)
        strategy = Strategy.SURGE if serving else Strategy.IN_PLACE
        draft.decide(slot, Action.REPLACE, reason, before=before, after=placement, strategy=strategy, message=failure)
        return
    # What served on this node, be it in another slot, is its agent's to launch again: giving way would try it for ever.
    if serving is not None or replica.ever_ready or not give_way(model, slot, held, draft):
        draft.decide(slot, Action.NONE, reason, before=before, after=before, message=failure)
    is_looping = replica.ever_ready and replica.failures_in_a_row >= CRASH_LOOP
    count = f"failed {replica.failures_in_a_row} times in a row (crash loop)" if is_looping else "failed"
    where = failed_where(slot, held.node, draft) if count == "failed" else f"{slot.name} on {held.node} {count}"
    block_failed(slot, f"{where}: {told}", draft, place=place, is_lost=lost is not None and lost.is_gpu)


def go_on(model: ModelSlots, slot: Slot, failure: Failure, draft: Draft) -> None:
    """A launch failed in this slot and is gone: it is tried on another node, else what serves, or served, goes on."""
    place = other(model, slot, draft)
    if slot.served and has_other_place(model, slot, draft):
        return  # its rollout goes on beside what serves
    told = f"{failure.launch.failure} (on {failure.node})"
    if place is None or slot.served:
        pass
    elif try_elsewhere(model, slot, place, draft, reason=Reason.FAILED, message=told):
        return
    say_failed(slot, failure, draft, place)
    if not slot.served and not restore(model, slot, failure, draft):
        draft.fill(slot, waiting("the same launch failed here"))


def stalled_slots(model: ModelSlots, draft: Draft) -> tuple[str, ...]:
    """Slots whose wanted replica failed and is not tried again by itself: they end the rollout of the model."""
    return tuple(
        slot.name for slot in model.slots if slot.is_wanted and not slot.is_frozen and _is_stalled(model, slot, draft)
    )


def _is_stalled(model: ModelSlots, slot: Slot, draft: Draft) -> bool:
    if not slot.failed and (draft.history.failure(slot) is None or slot.keeper is not None):
        return False
    if slot.failed and _is_tried_again(slot.failed[0], slot):
        return False
    if slot.name in draft.elsewhere:
        return False
    return slot.name in draft.changes or not has_other_place(model, slot, draft)


def _is_tried_again(held: Held, slot: Slot) -> bool:
    """A person asked since it was sent, or it served before and has not died too often since."""
    return is_asked_again(slot.aim, held.replica.entry.retry) or (
        held.replica.ever_ready and held.replica.failures_in_a_row < CRASH_LOOP
    )
