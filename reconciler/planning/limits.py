"""What must not happen without a person saying so: a tree without any model file stops nothing by itself.

Limits on how much may disappear at once, with `approve DIGEST`, belong here too and come with their own issue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.plan import Action, Blocked
from reconciler.planning.draft import waiting

if TYPE_CHECKING:
    from reconciler.domain.desired import Desired
    from reconciler.planning.draft import Draft


def hold_back(desired: Desired, draft: Draft) -> None:
    """Take back every stop when the tree has no model file at all, unless the fleet allows that."""
    doomed = {slot: change for slot, change in draft.changes.items() if change.action is Action.DELETE}
    if desired.models or desired.fleet.allow_empty or not doomed:
        return
    for slot, change in doomed.items():
        draft.changes[slot] = change.model_copy(update={"schedule": waiting("the tree has no model file")})
    draft.stops.clear()
    models = len({change.model for change in doomed.values()})
    replicas = f"{len(doomed)} replica{'s' if len(doomed) > 1 else ''} of {models} model{'s' if models > 1 else ''}"
    message = f"the tree has no model file: {replicas} would stop"
    hint = "write allow_empty: true in cluster.yaml if that is meant"
    draft.blocked.append(Blocked(rule="rollout/limits", message=message, hint=hint))
