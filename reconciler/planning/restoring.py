"""After a launch in place has failed: what served in the slot before is started again, on the GPUs it had.

Where these cannot be used any more it gets others.

What failed itself is never restored, so that this comes to an end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Profile, Strategy
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action, Reason
from reconciler.placement.demand import Demand
from reconciler.placement.fit import Seat, find_seat, misfit
from reconciler.planning.draft import NOW, waiting
from reconciler.planning.elsewhere import refusal, unfit
from reconciler.planning.matching import Match

if TYPE_CHECKING:
    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.plan import Schedule
    from reconciler.placement.room import Room
    from reconciler.planning.counting import ModelSlots, Slot
    from reconciler.planning.draft import Draft
    from reconciler.planning.elsewhere import Other
    from reconciler.planning.history import Failure
    from reconciler.planning.matching import Held


def after_failure(model: str) -> str:
    """What to do about it."""
    return f"change it and commit, or: reconciler retry {model}"


def say_failed(slot: Slot, failure: Failure, draft: Draft, place: Other | None = None) -> None:
    """Say that what is wanted in this slot failed and is not tried again by itself."""
    told = f"{failed_where(slot, failure.node, draft)}: {failure.launch.failure}"
    block_failed(slot, told, draft, place=place)


def failed_where(slot: Slot, node: str, draft: Draft) -> str:
    """`m/1 on n2 failed`, or `m/1 failed on n2, n3 and n4`."""
    nodes = sorted({node, *draft.history.failed_on(slot)})
    if len(nodes) == 1:
        return f"{slot.name} on {node} failed"
    return f"{slot.name} failed on {', '.join(nodes[:-1])} and {nodes[-1]}"


def block_failed(slot: Slot, told: str, draft: Draft, *, place: Other | None = None, is_lost: bool = False) -> None:
    """Say what failed and what a person can do.

    `place` is where it would be tried if there were room; `is_lost` that a GPU of it cannot be used any more.
    """
    hint = after_failure(slot.aim.name)
    if place is None:
        draft.block(slot, "rollout/failed", told, hint)
        return
    why = refusal(place, draft)
    hint = f"mend the GPU, or {why.hint}" if is_lost else f"{why.hint}; or {hint}"
    draft.block(slot, "rollout/failed", f"{told}; no other place: {why.message}", hint)


def stand_in(slot: Slot, draft: Draft) -> Held | None:
    """What is coming up in a slot although what is wanted there failed: it is left to, whatever it is.

    So is what served before and died: its agent launches it again, each time after a longer while. Where its GPUs
    cannot take it any more it is restored on others.
    """
    if draft.history.failure(slot) is None or slot.served:
        return None
    coming = [held for held in slot.of(Match.OUTDATED) if held.state is not ReplicaState.READY]
    died = [
        held
        for held in slot.of(Match.FAILED)
        if held.mismatch is not None and held.replica.ever_ready and unfit(held.replica.entry.placement, draft) is None
    ]
    return next(iter(coming + died), None)


def give_way(model: ModelSlots, slot: Slot, failed: Held, draft: Draft) -> bool:
    """Stop a failed replica for what served before it; False where there is nothing to restore, or no room for it."""
    good = draft.history.good(slot, failed.replica.entry.digest)
    if good is None:
        return False
    seat, without = _seat(good, slot), draft.forecast.later.copy()
    for node in failed.replica.entry.placement.nodes:
        without.release(node, failed.id)
    if not _is_free(without, seat):
        return False
    draft.stop(model, failed)
    after = draft.promise(slot, seat, reserve=True)
    draft.decide(
        slot,
        Action.REPLACE,
        Reason.FAILED,
        before=failed.replica.entry.placement,
        after=after.placement,
        schedule=_after_stop(slot),
        strategy=Strategy.IN_PLACE,
        message=failed.replica.failure,
    )
    return True


def restore(model: ModelSlots, slot: Slot, failure: Failure, draft: Draft) -> bool:
    """Fill a slot whose launch has failed with what served before it; False where that is not possible."""
    good = draft.history.good(slot, failure.launch.digest)
    if good is None:
        return False
    is_lost = unfit(good.placement, draft) is not None
    seat = _seat(good, slot, elsewhere=is_lost)
    if is_lost:
        seat = find_seat(draft.forecast.now, [seat.demand], slot.aim.name) or seat
    is_now = not model.waits_for_stop(slot) and _is_free(draft.forecast.now, seat)
    turn = draft.turn(slot, seat) if is_now else None
    after = draft.start(slot, seat) if is_now and turn is None else None
    schedule = NOW
    if after is None:
        if not _is_free(draft.forecast.later, seat):
            return False
        schedule = turn or _after_stop(slot)
        after = draft.promise(slot, seat, reserve=True)
    else:
        model.budget.excess += bool(slot.held)
    draft.decide(
        slot,
        Action.CREATE,
        Reason.FAILED,
        after=after.placement,
        schedule=schedule,
        message=f"what served before is started again: {failure.launch.failure}",
    )
    return True


def _after_stop(slot: Slot) -> Schedule:
    short = slot.name.removeprefix(slot.aim.name)
    return waiting(f"what served before, after {short} has stopped", (slot.name,))


def _seat(good: RunEntry, slot: Slot, *, elsewhere: bool = False) -> Seat:
    """The place it had; on GPUs its host RAM is not in the declaration, and it had it before.

    Nor are labels: on another node it goes only where the profile for the same GPUs lets its model run now.
    """
    declared = good.declaration
    profiles = slot.aim.spec.profiles if slot.aim.spec is not None else ()
    alike = (each for each in profiles if (each.engine, each.gpu_class) == (declared.engine, declared.gpu_class))
    profile = Profile(
        name="last-good",
        engine=declared.engine,
        memory_gib=declared.memory_gib,
        cpu_cores=declared.cpu_cores,
        select=next((each.select for each in alike), None) if elsewhere else None,
    )
    return Seat(Demand(profile, declared, good.digest), good.placement.shards)


def _is_free(room: Room, seat: Seat) -> bool:
    for shard in seat.shards:
        there = room.by_name.get(shard.node)
        if there is None or misfit(there, seat.demand) is not None:
            return False
        if any(gpu.uuid not in there.gpus or there.holders.get(gpu.uuid, 0) for gpu in shard.gpus):
            return False
    return True
