"""Replicas over several nodes: each node reports its part, and they stand or fall together.

What is leaving anywhere leaves everywhere, one failed part is a failed replica, and one that serves on every node but
one does not serve. A node that answers and does not hold its part has yet to be told of it (`missing_parts`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler.domain.observed import ReplicaState
from reconciler.planning.matching import Match

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.domain.observed import Observation
    from reconciler.planning.matching import Held

_GRAVEST = (Match.STOPPING, Match.FAILED, Match.OUTDATED, Match.SURPLUS, Match.MATCHING)
"""What a replica is when its parts differ: the first of these that any part is."""

_WORST = (
    *(ReplicaState.FAILED, ReplicaState.STOPPING, ReplicaState.DRAINING, ReplicaState.UNHEALTHY),
    *(ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.READY),
)
"""Its state when those of its parts differ: the first of these that any part is in."""

_SERVES_ALONE = frozenset({ReplicaState.READY, ReplicaState.STARTING})


def join(found: Sequence[Held], observed: Observation) -> tuple[Held, ...]:
    """The same replicas, each part with what the whole is to the desired state.

    Parts on nodes that do not answer stay unreachable by themselves: what is known of the others may not be acted on,
    and they are still named in the orders of their nodes.
    """
    several = _of_several_nodes(found)
    if not several:
        return tuple(found)
    parts: defaultdict[str, list[Held]] = defaultdict(list)
    for held in several:
        if held.match in _GRAVEST:
            parts[held.id].append(held)
    lacking = missing_parts(found, observed)
    return tuple(_part(held, parts[held.id], lacking) if held.id in parts else held for held in found)


def missing_parts(found: Sequence[Held], observed: Observation) -> Mapping[str, tuple[str, ...]]:
    """By replica id, nodes of its placement that answer and do not report it."""
    several = _of_several_nodes(found)
    if not several:
        return {}
    answering = {node.name for node in observed.reachable}
    holding: defaultdict[str, set[str]] = defaultdict(set)
    for held in several:
        holding[held.id].add(held.node)
    lacking = {held.id: tuple(_lacking(held, answering - holding[held.id])) for held in several}
    return {id_: nodes for id_, nodes in lacking.items() if nodes}


def _of_several_nodes(found: Sequence[Held]) -> list[Held]:
    """In most fleets none, which is told quickly."""
    return [held for held in found if len(held.replica.entry.placement.shards) > 1]


def stands_for(one: Held, other: Held) -> Held:
    """Of two parts the one that stands for the whole: an unknown one, else the worse, else the fresher.

    It counts every attempt that a part has had: one that was out of reach missed some, and the next is new to all.
    """
    if Match.UNREACHABLE in {one.match, other.match}:
        return one if one.match is Match.UNREACHABLE else other
    worse = min(one, other, key=lambda held: (_WORST.index(held.state), held.replica.state_for, held.node))
    entry, attempt = worse.replica.entry, max(one.replica.entry.attempt, other.replica.entry.attempt)
    if attempt == entry.attempt:
        return worse
    counted = entry.model_copy(update={"attempt": attempt})
    return replace(worse, replica=worse.replica.model_copy(update={"entry": counted}))


def _part(held: Held, parts: Sequence[Held], lacking: Mapping[str, tuple[str, ...]]) -> Held:
    if held.match not in _GRAVEST:
        return held
    match = min((each.match for each in parts), key=_GRAVEST.index)
    mismatch = next((each.mismatch for each in parts if each.mismatch is not None), None)
    replica = held.replica
    if held.id in lacking and replica.state in _SERVES_ALONE:
        replica = replica.model_copy(update={"state": ReplicaState.PENDING})
    return replace(held, replica=replica, match=match, mismatch=mismatch)


def _lacking(held: Held, without: set[str]) -> Iterator[str]:
    return (node for node in held.replica.entry.placement.nodes if node in without)
