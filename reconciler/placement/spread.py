"""Whether replicas of a model may go to different nodes: not where that would cost some model its place.

Two small replicas on two nodes leave neither whole for a large one. So everything that waits for a place is tried on
a copy of the room: spread first, and where that leaves somebody out, packed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.placement.fit import Preference, find_seat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.placement.demand import Demand
    from reconciler.placement.room import Room

REFINED = 4_000
"""Seats that may be looked for to spread one model at a time where spreading all is too much, about 0.2 s of work.

More would make a plan of a large fleet late; who is not reached stays packed, which only promise 6 can feel.
"""


@dataclass(frozen=True, slots=True)
class Want:
    """Replicas of one model that need a place, in the order models are placed."""

    model: str
    demands: Sequence[Demand]
    count: int


def packed(room: Room, wants: Sequence[Want]) -> frozenset[str]:
    """Models whose replicas are to be packed, so that as many models as possible find a place; takes nothing."""
    everyone = frozenset(want.model for want in wants)
    spread = _left_out(room, wants, frozenset())
    if not any(spread):
        return frozenset()
    best = _left_out(room, wants, everyone)
    if best >= spread:
        return frozenset()  # packing helps nobody, or only a less important model at the cost of another
    chosen = everyone
    tries = max(1, REFINED // max(1, sum(want.count for want in wants)))
    held = Counter({want.model: len(room.nodes_by_model.get(want.model, ())) for want in wants})
    for want in [want for want in wants if want.count + held[want.model] > 1][:tries]:
        fewer = chosen - {want.model}
        if _left_out(room, wants, fewer) == best:
            chosen = fewer
    return chosen


def _left_out(room: Room, wants: Sequence[Want], pack: frozenset[str]) -> list[int]:
    """How many replicas of each model find no place; compared as lists, the most important model decides."""
    trial = room.copy()
    left = []
    for want in wants:
        preference = Preference.PACK if want.model in pack else Preference.SPREAD
        placed = 0
        while placed < want.count:
            seat = find_seat(trial, want.demands, want.model, preference)
            if seat is None:
                break
            seat.take(trial, f"{want.model} {placed} tried", want.model, want.model)
            placed += 1
        left.append(want.count - placed)
    return left
