"""Which instructions of people are done and can go: a restart that happened, a retry with nothing left to try.

Said of what was observed alone, so that a reconciler that was killed at any point comes to the same answer later. In
doubt an instruction stays: one that lingers is seen in `status`, one that is lost is work that nobody does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ReachableNode, ReplicaState
from reconciler.domain.plan import Action
from reconciler.placement.demand import demands
from reconciler.planning.aim import RETRIES
from reconciler.planning.brake import STARTS_IN_A_ROW
from reconciler.planning.matching import LEAVING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.domain.observed import NodeObservation, Observation, ObservedReplica
    from reconciler.domain.plan import Decision

_AT_REST = LEAVING | {ReplicaState.READY}
"""States that no retry is for: it serves, or is on its way out."""


def used_up(
    desired: Desired, observed: Observation, intents: Sequence[Intent], decision: Decision, now: datetime
) -> tuple[Intent, ...]:
    """The restarts and retries among `intents` that ask for nothing any more; `decision` was made under all of them.

    None while a node of the inventory has not been heard by this process, which may hold what they are about; and none
    about a model of which something changes now, since what was sent may not have been observed yet.
    """
    asked = [each for each in intents if each.kind in {IntentKind.RESTART, IntentKind.RETRY}]
    if not asked or unheard(desired, observed):
        return ()
    moving = {
        change.model
        for change in decision.plan.changes
        if change.action is not Action.NONE and change.schedule.kind == "now"
    }
    return tuple(each for each in asked if _is_used_up(each, desired, observed, intents, decision, moving, now))


def may_go(
    desired: Desired, observed: Observation, intents: Sequence[Intent], decision: Decision, now: datetime
) -> tuple[Intent, ...]:
    """Those of `used_up` that can be forgotten: what failed under a retry is known by it to have been tried.

    Without it the commit would ask once more for what it had asked for before.
    """
    tried = {
        each.entry.retry for node in _known(observed) for each in node.replicas if each.state is not ReplicaState.READY
    } | {launch.retry for node in _known(observed) for launch in node.failed_launches}
    return tuple(each for each in used_up(desired, observed, intents, decision, now) if each.id not in tried)


def not_outlived(intents: Sequence[Intent], asked_at: Sequence[datetime]) -> tuple[Intent, ...]:
    """Without the retries that were said before a commit or an `apply` asked for the same, at one of these instants.

    While a node is silent they stand, and must not make what failed since look as if it were about to be tried again.
    """
    newest = max(asked_at, default=None)
    return tuple(
        each for each in intents if each.kind is not IntentKind.RETRY or newest is None or each.created_at > newest
    )


def unheard(desired: Desired, observed: Observation) -> tuple[str, ...]:
    """Nodes of the inventory of which nobody here knows what they hold; sorted."""
    known = {node.name for node in observed.nodes if _last(node) is not None}
    return tuple(sorted(node.name for node in desired.nodes if node.name not in known))


def held_of(desired: Desired, observed: Observation, model: str | None) -> tuple[ObservedReplica, ...]:
    """Replicas of a model, or of every one, as each node says or last said."""
    return tuple(
        replica
        for node in _known(observed)
        for replica in node.replicas
        if replica.entry.fleet == desired.fleet.name and model in {None, desired.model_of(replica.entry)}
    )


def _is_used_up(
    intent: Intent,
    desired: Desired,
    observed: Observation,
    intents: Sequence[Intent],
    decision: Decision,
    moving: set[str],
    now: datetime,
) -> bool:
    is_planned = decision.plan.complete or intent.model in decision.counts
    if not is_planned or (moving if intent.model is None else intent.model in moving):
        return False
    held = held_of(desired, observed, intent.model)
    if intent.kind is IntentKind.RESTART:
        return all(replica.entry.intent == intent.id for replica in held)
    since = _said_since(intent, intents)
    if any(replica.state not in _AT_REST and replica.entry.retry not in since for replica in held):
        return False
    return not failed_before(desired, observed, intent.model, since) and not opens_a_node(intent, observed, now)


def _said_since(intent: Intent, intents: Sequence[Intent]) -> frozenset[str]:
    """Ids of it and of the retries after it: what was launched under one of these was launched when it stood."""
    order = (intent.created_at, intent.id)
    return frozenset(each.id for each in intents if each.kind in RETRIES and (each.created_at, each.id) >= order)


def failed_before(desired: Desired, observed: Observation, model: str | None, since: frozenset[str]) -> bool:
    """Whether a launch that is still wanted of a model, or of any, failed and was not tried under one of `since`.

    A slot in which what is wanted serves, on whichever node, has nothing to try.
    """
    models = desired.models if model is None else (desired.model_by_name.get(model),)
    wanted = {
        each.name: (
            frozenset(digest for way in demands(desired, each) for digest in way.digests),
            max(each.scaling.max or 0, each.replicas),
        )
        for each in models
        if each is not None
    }
    served = {
        (desired.model_of(replica.entry), replica.entry.ordinal)
        for replica in held_of(desired, observed, model)
        if replica.state is ReplicaState.READY
        and replica.entry.digest in wanted.get(desired.model_of(replica.entry), (frozenset(), 0))[0]
    }
    return any(
        launch.model in wanted
        and (launch.model, launch.ordinal) not in served
        and launch.retry not in since
        and launch.digest in wanted[launch.model][0]
        and launch.ordinal < wanted[launch.model][1]
        for node in _known(observed)
        for launch in node.failed_launches
    )


def opens_a_node(intent: Intent, observed: Observation, now: datetime) -> bool:
    """Whether a node that was given up takes starts because of it, and none has been made there since."""
    found = (node.failed_starts for node in _known(observed))
    return any(
        failed is not None and failed.in_a_row >= STARTS_IN_A_ROW and intent.created_at > now - failed.last_for
        for failed in found
    )


def _known(observed: Observation) -> Iterator[ReachableNode]:
    """Every node as it is, or as it was last heard."""
    for each in observed.nodes:
        node = _last(each)
        if node is not None:
            yield node


def _last(node: NodeObservation) -> ReachableNode | None:
    return node if isinstance(node, ReachableNode) else node.last
