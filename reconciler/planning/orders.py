"""The next assignment of every node that answers: what it keeps, starts and stops, every replica it holds named."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from reconciler.domain.assignment import RunEntry
from reconciler.domain.desired import resolve_rollout
from reconciler.domain.model_spec import Rollout
from reconciler.domain.plan import NodeOrders
from reconciler.planning.draft import stop_entry
from reconciler.planning.matching import LEAVING, Match
from reconciler.planning.parts import missing_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.domain.assignment import StopEntry
    from reconciler.domain.desired import Desired, RolloutPolicy
    from reconciler.domain.observed import Observation
    from reconciler.planning.aim import Aim
    from reconciler.planning.draft import Draft
    from reconciler.planning.matching import Held

_NOT_NAMED = frozenset({Match.UNREACHABLE, Match.FOREIGN})


def order(desired: Desired, observed: Observation, matched: Sequence[Held], draft: Draft) -> dict[str, NodeOrders]:
    """By node name, sorted; a replica that nothing was decided about is kept as it is held."""
    entries: dict[str, list[RunEntry | StopEntry]] = defaultdict(list)
    changed: set[str] = set()
    missing = dict(missing_parts(matched, observed))
    for held in matched:
        if held.match in _NOT_NAMED:
            continue
        entry = _entry(desired, held, draft)
        entries[held.node].append(entry)
        # One that is stopping was told so before: its entry stays and tells the agent nothing. Most are the very same.
        is_same = entry is held.replica.entry or entry == held.replica.entry
        if not is_same and held.state not in LEAVING:
            changed.add(held.node)
        if missing and isinstance(entry, RunEntry):
            for node in missing.pop(held.id, ()):
                if draft.forecast.may_complete(entry, node):
                    entries[node].append(entry)
                    changed.add(node)
    for run in draft.runs.values():
        if run.id not in draft.held_ids:
            for node in run.placement.nodes:
                entries[node].append(run)
                changed.add(node)
    names = sorted(node.name for node in observed.reachable)
    return {
        name: NodeOrders(name, tuple(sorted(entries.get(name, ()), key=lambda each: each.id)), name in changed)
        for name in names
    }


def _entry(desired: Desired, held: Held, draft: Draft) -> RunEntry | StopEntry:
    if held.id in draft.stops:
        return draft.stops[held.id]
    if held.match is Match.STOPPING:
        return stop_entry(held.id, _policy(desired, held, draft.forecast.aims))
    return draft.runs.get(held.id, held.replica.entry)


def _policy(desired: Desired, held: Held, aims: Mapping[str, Aim]) -> RolloutPolicy:
    name = desired.model_of(held.replica.entry)
    if name in aims:
        return aims[name].policy
    spec = desired.model_by_name.get(name)
    return resolve_rollout(desired.fleet.defaults.rollout, spec.rollout if spec is not None else Rollout())
