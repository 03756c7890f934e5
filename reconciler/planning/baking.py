"""The first successor of a rollout is a canary: it serves for `rollout.bake` before the next replica is replaced."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.base import format_duration
from reconciler.domain.observed import ReplicaState
from reconciler.planning.draft import agree, spoken, waiting
from reconciler.planning.leaving import unserved

if TYPE_CHECKING:
    from reconciler.domain.plan import Schedule
    from reconciler.planning.counting import ModelSlots
    from reconciler.planning.draft import Draft


def baking(model: ModelSlots, draft: Draft) -> Schedule | None:
    """What the next replacement waits for; None where nothing bakes, nothing has to, or the canary may begin.

    One replica as desired that has served so long is proof enough, whichever slot it is in.
    """
    bake = model.aim.policy.bake
    if not bake:
        return None
    keepers = {slot.name: slot.keeper for slot in model.slots if slot.is_wanted and slot.keeper is not None}
    if any(held.state is ReplicaState.READY and held.replica.state_for >= bake for held in keepers.values()):
        return None
    begun = [slot.name for slot in model.slots if slot.is_wanted and _has_begun(slot.name, draft)]
    canaries = tuple(dict.fromkeys((*keepers, *begun, *unserved(model, draft))))
    if not canaries:
        return None
    have = agree(canaries, "has", "have")
    who = spoken(canaries, model.aim.name)
    return waiting(f"after {who} {have} served for {format_duration(bake)} (bake)", canaries)


def bakes_for(model: ModelSlots) -> list[timedelta]:
    """When replicas as desired will have served for so long, from now."""
    bake = model.aim.policy.bake
    serving = (
        slot.keeper.replica.state_for
        for slot in model.slots
        if slot.keeper is not None and slot.keeper.state is ReplicaState.READY
    )
    return [bake - served for served in serving if served < bake]


def _has_begun(slot: str, draft: Draft) -> bool:
    change = draft.changes.get(slot)
    return change is not None and change.after is not None and change.after.id in draft.runs
