"""How many replicas of each model, slot by slot, and what its rollout policy still allows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import slot_name
from reconciler.planning.matching import Match
from reconciler.planning.parts import stands_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reconciler.domain.desired import Desired
    from reconciler.planning.aim import Aim
    from reconciler.planning.matching import Held

_LIVELINESS = {ReplicaState.READY: 0, ReplicaState.UNHEALTHY: 1, ReplicaState.STARTING: 2, ReplicaState.PENDING: 3}


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot and every replica that holds it, best first."""

    aim: Aim
    ordinal: int
    name: str
    """`llama-70b/0`."""
    held: tuple[Held, ...]

    @property
    def sole(self) -> Held | None:
        """Its only holder where that is as desired: most slots of a fleet, about which nothing more need be asked."""
        return self.held[0] if len(self.held) == 1 and self.held[0].match is Match.MATCHING else None

    @property
    def is_wanted(self) -> bool:
        """Whether the model wants this many replicas."""
        return self.ordinal < self.aim.count

    @property
    def is_frozen(self) -> bool:
        """Whether nothing about it may change: its model is suspended, or a holder's node does not answer."""
        return self.aim.is_suspended or bool(self.unknown)

    def of(self, *matches: Match) -> tuple[Held, ...]:
        """The holders of some classes, best first."""
        return tuple(held for held in self.held if held.match in matches)

    @property
    def unknown(self) -> tuple[Held, ...]:
        """Holders whose node does not answer."""
        return self.of(Match.UNREACHABLE)

    @property
    def keeper(self) -> Held | None:
        """The live replica that is as desired; where there are several, the one to keep."""
        return next(iter(self.of(Match.MATCHING)), None)

    @property
    def served(self) -> tuple[Held, ...]:
        """Outdated replicas that serve."""
        return tuple(held for held in self.of(Match.OUTDATED) if held.state is ReplicaState.READY)

    @property
    def spent(self) -> tuple[Held, ...]:
        """Outdated replicas that serve nobody: starting for an aim that is past, failed or not answering."""
        outdated = (held for held in self.of(Match.OUTDATED, Match.FAILED) if held.mismatch is not None)
        return tuple(held for held in outdated if held.state is not ReplicaState.READY)

    @property
    def failed(self) -> tuple[Held, ...]:
        """Failed replicas that are as desired."""
        return tuple(held for held in self.of(Match.FAILED) if held.mismatch is None)


@dataclass(slots=True)
class Budget:
    """What one model may still lose or add in this pass; everything in flight counts."""

    aim: Aim
    available: int
    """Replicas that serve, outdated and surplus ones included."""
    expected: int
    """Replicas that serve or are coming up."""
    excess: int
    """Replicas beyond one a slot: surging, stopping or surplus. Unknown ones stand elsewhere and do not count."""
    unknown: int
    """Wanted slots that an unreachable node holds."""

    @property
    def away(self) -> int:
        """Replicas that may be missing when one is replaced in place: max_unavailable, but at least one."""
        return max(1, self.aim.policy.max_unavailable)

    @property
    def pair_floor(self) -> int:
        """How many must serve when an old replica stops whose successor serves.

        Slots that an unreachable node holds are left out: what is unknown gates nothing that takes nothing away.
        """
        policy = self.aim.policy
        may_miss = policy.max_unavailable if policy.strategy is Strategy.SURGE else self.away
        return self.aim.count - may_miss - self.unknown

    @property
    def surplus_floor(self) -> int:
        """How many must serve when a surplus one stops; none where none is wanted."""
        return self.aim.count - self.aim.policy.max_unavailable if self.aim.count else 0

    @property
    def in_place_floor(self) -> int:
        """How many must serve when one is stopped before its successor starts."""
        return self.aim.count - self.away

    def spares(self, held: Held, floor: int) -> bool:
        """Whether at least `floor` replicas serve without this one."""
        return self.available - held.is_available(self.aim) >= floor

    def will_spare(self, held: Held, floor: int) -> bool:
        """Whether that will be so once everything that is coming up serves."""
        return self.expected - _is_coming(held) >= floor

    def lose(self, held: Held) -> None:
        """Count a replica out."""
        self.available -= held.is_available(self.aim)
        self.expected -= _is_coming(held)


@dataclass(frozen=True, slots=True)
class ModelSlots:
    """One model with its slots, wanted and surplus, ascending."""

    aim: Aim
    slots: tuple[Slot, ...]
    budget: Budget

    def waits_for_stop(self, slot: Slot) -> bool:
        """Whether what fills this slot, new or restored, starts only when what it succeeds has left.

        Beside what is still stopping it would be a surge, and needs the budget of one. Broken replicas gate nothing.
        """
        if not slot.held or any(held.state in {ReplicaState.FAILED, ReplicaState.UNHEALTHY} for held in slot.spent):
            return False
        policy = self.aim.policy
        return policy.strategy is Strategy.IN_PLACE or self.budget.excess >= policy.max_surge


def count(aims: Mapping[str, Aim], matched: Iterable[Held], desired: Desired) -> tuple[ModelSlots, ...]:
    """The slots of every planned model: 0 to count - 1, and every further one that a replica holds.

    A model that has `moved` holds the slots of its former name.
    """
    holders: dict[str, dict[int, dict[str, Held]]] = {name: defaultdict(dict) for name in aims}
    for held in matched:
        entry = held.replica.entry
        model = desired.model_of(entry)
        if model in holders and entry.fleet == desired.fleet.name:
            by_id = holders[model][entry.ordinal]
            known = by_id.get(entry.id)
            by_id[entry.id] = held if known is None else stands_for(known, held)
    return tuple(_model_slots(aim, holders[name]) for name, aim in aims.items())


def _model_slots(aim: Aim, holders: Mapping[int, Mapping[str, Held]]) -> ModelSlots:
    slots = tuple(
        Slot(aim, ordinal, slot_name(aim.name, ordinal), _best_first(holders.get(ordinal, {})))
        for ordinal in sorted({*range(aim.count), *holders})
    )
    budget = Budget(aim, available=0, expected=0, excess=0, unknown=0)
    for slot in slots:
        known = [held for held in slot.held if held.match is not Match.UNREACHABLE]
        budget.available += sum(held.is_available(aim) for held in known)
        budget.expected += sum(_is_coming(held) for held in known)
        budget.excess += max(0, len(known) - 1) if slot.is_wanted else len(known)
        budget.unknown += slot.is_wanted and len(known) < len(slot.held)
    return ModelSlots(aim, slots, budget)


def _best_first(holders: Mapping[str, Held]) -> tuple[Held, ...]:
    found = tuple(holders.values())
    return found if len(found) < 2 else tuple(sorted(found, key=_preference))  # noqa: PLR2004  # one is in order


def _is_coming(held: Held) -> bool:
    """Whether it serves, or is as desired and may come to serve."""
    if not held.is_live or held.state is ReplicaState.UNHEALTHY:
        return False
    return held.state is ReplicaState.READY or held.mismatch is None


def _preference(held: Held) -> tuple[int, float, str]:
    """Ready first, then the one that has been so for longest, then by id."""
    return _LIVELINESS.get(held.state, len(_LIVELINESS)), -held.replica.state_for.total_seconds(), held.id
