"""What each observed replica is to the desired state: a table of rules, the first that holds gives the class."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Reason
from reconciler.placement.stock import displaced, stock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from reconciler.domain.desired import Desired
    from reconciler.domain.observed import Observation, ObservedReplica, ReachableNode
    from reconciler.placement.stock import Stock
    from reconciler.planning.aim import Aim


class Match(StrEnum):
    """What a replica is to the desired state; exactly one each, in the order the rules are tried."""

    UNREACHABLE = "unreachable"
    FOREIGN = "foreign"
    FAILED = "failed"
    STOPPING = "stopping"
    OUTDATED = "outdated"
    SURPLUS = "surplus"
    MATCHING = "matching"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a replica is not as desired."""

    reason: Reason
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """One replica on the node that reports it."""

    node: str
    replica: ObservedReplica
    match: Match
    mismatch: Mismatch | None
    """None when it is as desired, whatever its state."""

    @property
    def id(self) -> str:
        """Its replica id."""
        return self.replica.entry.id

    @property
    def state(self) -> ReplicaState:
        """Its state."""
        return self.replica.state

    @property
    def is_live(self) -> bool:
        """Whether it serves or may come to serve: known, not failed and not on its way out."""
        return self.match in {Match.OUTDATED, Match.SURPLUS, Match.MATCHING}

    def is_available(self, aim: Aim) -> bool:
        """Whether it counts as serving: ready for `min_ready`, not stopping, on a node that answers."""
        return self.is_live and self.state is ReplicaState.READY and self.replica.state_for >= aim.policy.min_ready


@dataclass(frozen=True, slots=True)
class _Seen:
    """The facts that the rules look at."""

    replica: ObservedReplica
    is_heard: bool
    fleet: str
    aim: Aim | None
    mismatch: Mismatch | None


LEAVING = frozenset({ReplicaState.DRAINING, ReplicaState.STOPPING})
"""States that a replica never comes back from."""

RULES: tuple[tuple[Callable[[_Seen], bool], Match], ...] = (
    # Its node does not answer: whatever was last known of it may no longer hold, so no other rule may act on it.
    (lambda seen: not seen.is_heard, Match.UNREACHABLE),
    # Another fleet's: not ours to judge.
    (lambda seen: seen.replica.entry.fleet != seen.fleet, Match.FOREIGN),
    # It serves nobody, so replacing or repairing it takes nothing away, outdated or not.
    (lambda seen: seen.replica.state is ReplicaState.FAILED, Match.FAILED),
    # On its way out; it never comes back, even if it would match.
    (lambda seen: seen.replica.state in LEAVING, Match.STOPPING),
    # Its model is wanted otherwise than it runs.
    (lambda seen: seen.mismatch is not None, Match.OUTDATED),
    # Its slot is not wanted, or its model is gone.
    (lambda seen: seen.aim is None or seen.replica.entry.ordinal >= seen.aim.count, Match.SURPLUS),
    (lambda _: True, Match.MATCHING),
)


def match(desired: Desired, observed: Observation, aims: Mapping[str, Aim]) -> tuple[Held, ...]:
    """Classify every observed replica; a model without an aim is not planned, and its replicas never mismatch.

    A replica over several nodes is reported by each of them; `parts.join` then says what the whole is.
    """
    return tuple(
        _classify(desired, node, replica, stocked, aims.get(desired.model_of(replica.entry)))
        for node, stocked, replica in _walk(desired, observed)
    )


def _walk(desired: Desired, observed: Observation) -> Iterator[tuple[ReachableNode, Stock | None, ObservedReplica]]:
    """Every replica with its node, unreachable nodes as last heard, in an order that input order does not change."""
    for node in sorted(observed.reachable, key=lambda each: each.name):
        if node.replicas:
            stocked = stock(desired, node)
            for replica in sorted(node.replicas, key=lambda each: each.id):
                yield node, stocked, replica
    for lost in sorted(observed.unreachable, key=lambda each: each.name):
        if lost.last is not None:
            for replica in sorted(lost.last.replicas, key=lambda each: each.id):
                yield lost.last, None, replica


def _classify(
    desired: Desired, node: ReachableNode, replica: ObservedReplica, stocked: Stock | None, aim: Aim | None
) -> Held:
    mismatch = _mismatch(replica, stocked, aim) if stocked is not None and aim is not None else None
    seen = _Seen(replica, stocked is not None, desired.fleet.name, aim, mismatch)
    found = next(match_ for holds, match_ in RULES if holds(seen))
    return Held(node.name, replica, found, mismatch)


def _mismatch(replica: ObservedReplica, stocked: Stock, aim: Aim) -> Mismatch | None:
    """Compare the digest as it was reported, never computed again: a newer tool restarts nothing (promise 8)."""
    entry = replica.entry
    if aim.spec is None:
        return None  # there is nothing to compare with; the slot is surplus
    profiles = aim.profiles_by_digest.get(entry.digest)
    if profiles is None:
        return Mismatch(Reason.CHANGED)
    if entry.restart != aim.restart:
        return Mismatch(Reason.RESTART)
    if aim.intent is not None and entry.intent != aim.intent:
        return Mismatch(Reason.RESTART)
    message = displaced(stocked, entry.placement, profiles)
    return None if message is None else Mismatch(Reason.MOVED, message)
