"""What suspensions hold back: what would change of the models that they are about, if nobody had suspended them.

Worked out for people after the plan, by planning these models again without: nothing of it is done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler.domain.intent import IntentKind, newest
from reconciler.domain.plan import HeldBack, Reason
from reconciler.planning.planner import plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Change, Plan


def held_back(
    desired: Desired, observed: Observation, intents: Sequence[Intent], now: datetime, decided: Plan
) -> tuple[HeldBack, ...]:
    """One for each suspended model of a plan of which something would change, sorted by name."""
    names = {change.model for change in decided.changes if change.reason is Reason.SUSPENDED}
    if not names:
        return ()
    models = tuple(
        each.model_copy(update={"suspend": False}) if each.name in names else each for each in desired.models
    )
    others = [each for each in intents if each.kind is not IntentKind.SUSPEND or each.model not in {None, *names}]
    freed = plan(replace(desired, models=models), observed, others, now, only=frozenset(names)).plan
    acts: dict[str, list[Change]] = {}
    for change in freed.acts:
        acts.setdefault(change.model, []).append(change)
    return tuple(
        _held_back(name, acts[name], newest(intents, [IntentKind.SUSPEND], name, now)) for name in sorted(acts)
    )


def _held_back(model: str, changes: Sequence[Change], said: Intent | None) -> HeldBack:
    """By a person where one said so, else by its file."""
    return HeldBack(
        model=model,
        author=None if said is None else said.author,
        reason=None if said is None else said.reason,
        expires_at=None if said is None else said.expires_at,
        changes=tuple(changes),
    )
