"""What a declaration would hold and how long it loads: sizing, for replicas that run as for those that will."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.domain.desired import Where
from reconciler.domain.model_spec import Profile
from reconciler.domain.outlook import GpuMemory
from reconciler.gate.discretion import discreet
from reconciler.gate.knowledge import Knowledge
from reconciler.gate.loading import loading
from reconciler.gate.subject import Use
from reconciler.planning.outlook import Expected, foresee

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from reconciler.domain.declaration import Declaration
    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Change, Plan

_GIB = 2**30


def foreseen(desired: Desired, observed: Observation, intents: Sequence[Intent], now: datetime, plan: Plan) -> Plan:
    """The plan as people may read it: with what it means (`planning.outlook`), and without secrets (promise 9)."""
    shown = plan.model_copy(update={"changes": tuple(_discreet(change) for change in plan.changes)})
    shown = foresee(desired, observed, intents, now, shown, LockFigures(desired))
    held = (each.model_copy(update={"changes": tuple(map(_discreet, each.changes))}) for each in shown.held_back)
    return shown.model_copy(update={"held_back": tuple(held)}) if shown.held_back else shown


def _discreet(change: Change) -> Change:
    if not change.fields:
        return change
    fields = tuple(
        each.model_copy(update={"before": discreet(each.before), "after": discreet(each.after)})
        for each in change.fields
    )
    return change.model_copy(update={"fields": fields})


@dataclass(slots=True)
class LockFigures:
    """`planning.outlook.Figures` out of the locks of one tree: a source that they no longer name tells nothing."""

    desired: Desired
    _knowledge: Knowledge = field(init=False)

    def __post_init__(self) -> None:
        self._knowledge = Knowledge(self.desired)

    def memory(self, model: str, declaration: Declaration) -> GpuMemory | None:
        """Of the fullest GPU; None where it is not known."""
        use = self._use(model, declaration)
        sized = None if use is None else self._knowledge.sized(use)
        if sized is None or sized.per_gpu is None:
            return None
        needs, usable = sized.per_gpu.needs.likely, sized.per_gpu.usable
        return GpuMemory(needs_gib=round(needs / _GIB, 1), usable_gib=round(usable / _GIB, 1))

    def loading(self, model: str, declaration: Declaration) -> Expected | None:
        """From launch to the first answer; None where the size of its weights is not known."""
        use = self._use(model, declaration)
        found = None if use is None else loading(self._knowledge, use)
        return None if found is None else Expected(found.seconds, found.basis)

    def _use(self, model: str, declaration: Declaration) -> Use | None:
        """The declaration as a profile of its model; None where the model is gone, and its lock with it."""
        spec = self.desired.model_by_name.get(model)
        if spec is None:
            return None
        shared = Profile.model_fields.keys() & type(declaration).model_fields.keys()
        profile = Profile(
            name="declared",
            **{name: getattr(declaration, name) for name in shared if name != "gpus"},
            gpus=declaration.gpus or None,
        )
        adapters = [each for each in spec.adapters if each.source in {one.source for one in declaration.adapters}]
        as_declared = spec.model_copy(update={"context": declaration.context, "adapters": tuple(adapters)})
        # Knowledge is kept by place: what differs in anything stands at a place of its own.
        return Use(as_declared, profile, Where(f"{model}@{declaration.launch_digest()}"))
