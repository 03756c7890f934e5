"""How much a plan changes, how long that takes and whether a model is away, as far as load times are known."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReachableNode
from reconciler.domain.plan import Action, Impact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Change
    from reconciler.planning.aim import Aim

_STARTS = frozenset({Action.CREATE, Action.REPLACE})


@dataclass(frozen=True, slots=True)
class LoadTimes:
    """Seconds from launch to ready, the last time, as agents report them."""

    seconds_by_place: Mapping[tuple[str, str], float]
    """By model and node."""
    longest_by_model: Mapping[str, float]

    def of(self, model: str, nodes: Iterable[str]) -> float | None:
        """On these nodes, else the longest known anywhere; None when the model never loaded."""
        known = [self.seconds_by_place[model, node] for node in nodes if (model, node) in self.seconds_by_place]
        return max(known) if known else self.longest_by_model.get(model)


def load_times(observed: Observation) -> LoadTimes:
    """Collect what every node says, those last heard included: it is only for estimates."""
    by_place: dict[tuple[str, str], float] = {}
    for each in observed.nodes:
        node = each if isinstance(each, ReachableNode) else each.last
        if node is None:
            continue
        by_place |= {(time.model, node.name): time.seconds for time in node.load_times}
        for replica in node.replicas:
            if replica.load_seconds is not None:
                by_place[replica.entry.model, node.name] = replica.load_seconds
    longest: dict[str, float] = {}
    for (model, _), seconds in by_place.items():
        longest[model] = max(seconds, longest.get(model, 0.0))
    return LoadTimes(by_place, longest)


def estimate(
    changes: Sequence[Change],
    aims: Mapping[str, Aim],
    observed: Observation,
    known: LoadTimes | None = None,
    *,
    at_once: int | None = None,
) -> Impact:
    """Sum a plan up. Models change side by side; what has no place yet waits for others and is not estimated.

    `known` are load times in place of those that nodes report; `at_once` is how many replicas of the fleet may be
    starting at a time.
    """
    counts = Counter(change.action for change in changes)
    acts: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        if change.action is not Action.NONE:
            acts[change.model].append(change)
    starts = any(change.action in _STARTS for each in acts.values() for change in each)
    times = known if known is not None or not starts else load_times(observed)
    seconds = [_model_seconds(aims[model], each, times) for model, each in acts.items()]
    if at_once is not None and starts:
        seconds.append(_taking_turns([change for each in acts.values() for change in each], times, at_once))
    away = [_outage_seconds(aims[model], each, times) for model, each in acts.items()]
    return Impact(
        replaced=counts[Action.REPLACE],
        created=counts[Action.CREATE],
        deleted=counts[Action.DELETE],
        unchanged=counts[Action.NONE] + counts[Action.UPDATE],
        seconds=_longest(seconds),
        outage_seconds=_longest(away),
    )


def _model_seconds(aim: Aim, acts: Sequence[Change], times: LoadTimes | None) -> float | None:
    """Creates start together; replacements go in turns of max_surge beside, or of max_unavailable in place.

    A stop counts with the time of its withdrawal only: how long requests in flight take to end is not known.
    """
    policy = aim.policy
    withdraw = policy.withdraw_delay.total_seconds()
    loads = [(change, _load(change, times)) for change in acts if change.action in _STARTS and change.after is not None]
    if any(change.action in _STARTS for change in acts) and (not loads or any(load is None for _, load in loads)):
        return None
    known = [(change, load or 0.0) for change, load in loads]
    creates = max((load for change, load in known if change.action is Action.CREATE), default=0.0)
    beside = [load for change, load in known if change.strategy is Strategy.SURGE]
    in_place = [load for change, load in known if change.strategy is Strategy.IN_PLACE]
    turn = policy.min_ready.total_seconds() + withdraw
    rolled = _turns(beside, max(1, policy.max_surge), turn) + _turns(in_place, max(1, policy.max_unavailable), turn)
    goes = any(change.action is Action.DELETE and change.schedule.kind == "now" for change in acts)
    stops = withdraw if goes else 0.0
    return max(creates, rolled, stops)


def _taking_turns(acts: Sequence[Change], times: LoadTimes | None, at_once: int) -> float:
    """The least that all starts take with so many at a time, as far as their loads are known."""
    loads = [_load(change, times) or 0.0 for change in acts if change.action in _STARTS]
    return sum(loads) / at_once if len(loads) > at_once else 0.0


def _turns(loads: Sequence[float], at_once: int, turn: float) -> float:
    """Seconds for replacements of which `at_once` go together, each turn as long as its slowest load."""
    return sum(max(loads[first : first + at_once]) + turn for first in range(0, len(loads), at_once))


def _outage_seconds(aim: Aim, acts: Sequence[Change], times: LoadTimes | None) -> float | None:
    """A model is away while its only replica, or all of them at once, is replaced in place."""
    in_place = [change for change in acts if change.strategy is Strategy.IN_PLACE and change.after is not None]
    if not in_place or aim.count > max(1, aim.policy.max_unavailable):
        return 0.0
    return _longest([_load(change, times) for change in in_place])


def _load(change: Change, times: LoadTimes | None) -> float | None:
    return times.of(change.model, change.after.nodes) if times is not None and change.after is not None else None


def _longest(seconds: Sequence[float | None]) -> float | None:
    """The longest; 0 of none, None where one is not known."""
    known = [each for each in seconds if each is not None]
    return None if len(known) < len(seconds) else max(known, default=0.0)
