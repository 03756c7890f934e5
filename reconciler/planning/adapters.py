"""Adapters that come and go while their model serves: a replica is told of them, and nothing restarts.

That they differ is no mismatch: which ones are loaded live is not in the launch digest, only the room for them is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.plan import Action, Reason
from reconciler.planning.difference import compare
from reconciler.planning.draft import waiting
from reconciler.planning.restoring import after_failure

if TYPE_CHECKING:
    from reconciler.domain.assignment import RunEntry
    from reconciler.planning.aim import Aim
    from reconciler.planning.counting import Slot
    from reconciler.planning.draft import Draft
    from reconciler.planning.matching import Held


def tell_adapters(slot: Slot, keeper: Held, draft: Draft) -> bool:
    """Tell a replica that is otherwise as desired of its adapters, or say that its engine has not got them yet.

    False where there is nothing to say: it has those that it should have, or nobody knows.
    """
    replica = keeper.replica
    before, placement = replica.entry, replica.entry.placement
    entry = _told(before, slot.aim)
    if entry is not None:
        draft.runs[entry.id] = entry
        fields = compare(before.declaration, entry.declaration)
        draft.decide(slot, Action.UPDATE, Reason.CHANGED, before=placement, after=placement, fields=fields)
        return True
    if not replica.lacks_adapters:
        return False
    if replica.adapter_failure is not None:
        message = f"{slot.name} on {keeper.node}: {replica.adapter_failure}"
        draft.block(slot, "rollout/failed", message, after_failure(slot.aim.name))
    loaded = before.declaration.model_copy(update={"adapters": replica.adapters})
    draft.decide(
        slot,
        Action.UPDATE,
        Reason.CHANGED,
        before=placement,
        after=placement,
        schedule=waiting("its agent is loading them", (slot.name,)),
        fields=compare(loaded, before.declaration),
        message=replica.adapter_failure,
    )
    return True


def _told(entry: RunEntry, aim: Aim) -> RunEntry | None:
    """The entry with the adapters that are desired; None where it has them. All else in it stays as it was launched."""
    way = next((each for each in aim.demands if entry.digest in each.digests), None)
    if way is None or not way.declaration.loads_adapters or entry.declaration.adapters == way.declaration.adapters:
        return None
    declaration = entry.declaration.model_copy(update={"adapters": way.declaration.adapters})
    return entry.model_copy(update={"declaration": declaration})
