"""What a plan means for the people who read it: what each model holds, who still serves, how long, and how back.

Worked out after the plan and for display only, so that a pass of the loop does not pay for it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from reconciler.domain.model_spec import Strategy
from reconciler.domain.outlook import ModelOutlook
from reconciler.domain.placement import replica_id
from reconciler.domain.plan import Action
from reconciler.placement.refusal import refuse
from reconciler.planning.aim import aims_of
from reconciler.planning.consequences import is_rolled_out, serves, serving, way_back, width
from reconciler.planning.forecast import Forecast
from reconciler.planning.held_back import held_back
from reconciler.planning.impact import LoadTimes, estimate, load_times
from reconciler.planning.peak import peaks
from reconciler.planning.starts import allowed_starts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from reconciler.domain.declaration import Declaration
    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import Observation, ObservedReplica
    from reconciler.domain.outlook import GpuMemory
    from reconciler.domain.plan import Change, Impact, Plan
    from reconciler.planning.aim import Aim

_STARTS = frozenset({Action.CREATE, Action.REPLACE})


@dataclass(frozen=True, slots=True)
class Expected:
    """A load time that nobody has seen yet."""

    seconds: float
    basis: str


class Figures(Protocol):
    """What files tell of a way to run a model; sizing speaks through the gate, which stands above planning."""

    def memory(self, model: str, declaration: Declaration) -> GpuMemory | None:
        """Of the fullest GPU; None where it is not known."""
        ...

    def loading(self, model: str, declaration: Declaration) -> Expected | None:
        """From launch to the first answer; None where the size of its weights is not known."""
        ...


class NoFigures:
    """Where no lock tells anything."""

    def memory(self, model: str, declaration: Declaration) -> None:
        """Not known."""

    def loading(self, model: str, declaration: Declaration) -> None:
        """Not known."""


def foresee(
    desired: Desired,
    observed: Observation,
    intents: Sequence[Intent],
    now: datetime,
    plan: Plan,
    figures: Figures,
) -> Plan:
    """The same plan with what it means; its digest and all that it decides stay as they are."""
    held = held_back(desired, observed, intents, now, plan)
    plan = plan.model_copy(update={"held_back": held}) if held else plan
    acts: dict[str, list[Change]] = defaultdict(list)
    for change in plan.acts:
        acts[change.model].append(change)
    if not acts:
        return plan
    aims = aims_of(desired, observed, intents, now, frozenset(acts))
    running = {replica.id: replica for _, replica in observed.replicas()}
    view = _View(desired, observed, aims, running, figures, load_times(observed))
    expected = {model: view.expected(changes) for model, changes in acts.items()}
    seconds = {model: each.seconds for model, each in expected.items() if each is not None}
    times = LoadTimes(view.times.seconds_by_place, seconds | dict(view.times.longest_by_model))
    every: dict[str, list[Change]] = defaultdict(list)
    for change in plan.changes:
        if change.model in acts:
            every[change.model].append(change)
    at_once = allowed_starts(desired.fleet.limits, len(desired.nodes))
    models = tuple(
        view.outlook(model, changes, estimate(changes, aims, observed, times), expected[model])
        for model, changes in every.items()
    )
    return plan.model_copy(
        update={
            "impact": estimate(plan.changes, aims, observed, times, at_once=at_once),
            "models": models,
            "gpus": peaks(desired, observed, acts, aims),
        }
    )


@dataclass
class _View:
    """One plan being looked at."""

    desired: Desired
    observed: Observation
    aims: Mapping[str, Aim]
    running: Mapping[str, ObservedReplica]
    figures: Figures
    times: LoadTimes

    @cached_property
    def forecast(self) -> Forecast:
        """Room as it is now; built only where it says why there is none beside."""
        return Forecast(self.desired, self.observed, self.aims)

    def expected(self, changes: Sequence[Change]) -> Expected | None:
        """How long a start takes by the size of its weights."""
        after = self._after(changes)
        return None if after is None else self.figures.loading(after.model, after)

    def outlook(self, model: str, changes: Sequence[Change], impact: Impact, expected: Expected | None) -> ModelOutlook:
        """What the changes of one model mean."""
        aim = self.aims[model]
        before, after = self._before(changes), self._after(changes)
        ready, lowest = serving(aim, changes, self.running)
        starts = [each.after for each in changes if each.action in _STARTS and each.after is not None]
        nodes = [node for each in starts for node in each.nodes]
        return ModelOutlook(
            model=model,
            why_strategy=self._why_strategy(aim, changes),
            width_before=None if before is None else width(before),
            width_after=None if after is None else width(after),
            memory_before=None if before is None else self.figures.memory(model, before),
            memory_after=None if after is None else self.figures.memory(model, after),
            wanted=aim.count,
            ready=ready,
            lowest=lowest,
            seconds=impact.seconds,
            outage_seconds=impact.outage_seconds,
            last_start_seconds=self.times.of(model, nodes) if starts else None,
            expected=None if expected is None else expected.basis,
            drain_seconds=aim.policy.drain_timeout.total_seconds(),
            fallback_of=() if aim.count else self._fallback_of(model),
            way_back=way_back(changes),
        )

    def _fallback_of(self, model: str) -> tuple[str, ...]:
        return tuple(each.name for each in self.desired.models if model in each.fallbacks)

    def _before(self, changes: Sequence[Change]) -> Declaration | None:
        """What a replica that goes runs now."""
        ids = [change.before.id for change in changes if change.before is not None and change.action is not Action.NONE]
        found = next((self.running[id_] for id_ in ids if id_ in self.running), None)
        return None if found is None else found.entry.declaration

    def _after(self, changes: Sequence[Change]) -> Declaration | None:
        """What a replica that comes will run: the way whose id it has; without a place, the first."""
        starts = [change for change in changes if change.action in _STARTS]
        if not starts:
            return None
        aim = self.aims[starts[0].model]
        for change in starts:
            ordinal, after = int(change.replica.rpartition("/")[2]), change.after
            if after is None:
                continue
            for way in aim.demands:
                id_ = replica_id(aim.name, ordinal, way.digest, aim.restart, aim.intent, after.shards)
                if id_ == after.id:
                    return way.declaration
        return aim.demands[0].declaration if aim.demands else None

    def _why_strategy(self, aim: Aim, changes: Sequence[Change]) -> str | None:
        placed = [each for each in changes if is_rolled_out(each) and each.after is not None]
        if not placed:
            return None
        if all(each.strategy is Strategy.SURGE for each in placed):
            return "there is room beside"
        if not any(serves(each, self.running) for each in placed if each.strategy is Strategy.IN_PLACE):
            return "what goes serves nobody"
        if aim.policy.strategy is Strategy.SURGE_OR_IN_PLACE and aim.policy.max_surge > 0:
            return f"no room beside: {refuse(self.forecast.now, aim.demands).shortage}"
        return "as its rollout.strategy says"
