"""Seats for replicas that are replaced in place: what each stop frees, and in which order they have to go.

Nothing is stopped unless every successor has a seat at the end. Replicas that run may be smaller than what succeeds
them and of different sizes, so the one whose stop makes room goes first, whatever its ordinal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.placement.fit import find_seat
from reconciler.placement.refusal import refuse
from reconciler.planning.draft import spoken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.placement.fit import Seat
    from reconciler.placement.room import Holding, Room
    from reconciler.planning.counting import Slot
    from reconciler.planning.draft import Draft
    from reconciler.planning.matching import Held

    Pair = tuple[Slot, Held]
    """A wanted slot and the serving replica that its successor follows."""


def seats_in_place(pairs: Sequence[Pair], draft: Draft) -> list[tuple[Slot, Held, Seat]] | str:
    """A seat for each successor once its predecessor is gone, in the order in which they go.

    Where one finds none: why, with numbers, and all is as before. On success what leaves has left `forecast.later`.
    """
    trial = _Trial(draft.forecast.later)
    found = _seats(pairs, trial, draft)
    trial.clear()
    if isinstance(found, str):
        trial.restore()
    return found


def fits_in_place(pairs: Sequence[Pair], draft: Draft) -> bool:
    """Whether every successor would have a seat in place; changes nothing."""
    trial = _Trial(draft.forecast.later)
    found = _seats(pairs, trial, draft)
    trial.clear()
    trial.restore()
    return not isinstance(found, str)


def _seats(pairs: Sequence[Pair], trial: _Trial, draft: Draft) -> list[tuple[Slot, Held, Seat]] | str:
    """Slots that wait for room and are placed before this model are seated first: they would take what is freed."""
    aim = pairs[0][0].aim
    hungry = [slot for slot in draft.unplaced if slot.aim.rank <= aim.rank]
    fed: list[str] = []
    found: list[tuple[Slot, Held, Seat]] = []
    left = list(pairs)
    while left:
        pair = _next(left, trial)
        trial.release(pair[1])
        fed += [slot.name for slot in hungry if slot.name not in fed and trial.sit(slot) is not None]
        seat = trial.sit(pair[0])
        if seat is None:
            break
        found.append((*pair, seat))
        left.remove(pair)
    if not left:
        return found
    if fed:
        return f"what it frees would go to {spoken(fed)}, {'which waits' if len(fed) == 1 else 'which wait'} for room"
    for _, held in left:
        trial.release(held)  # told with all of them gone, as many seated as can be: the order is not what is short
    seated = len(found) + sum(1 for slot, _ in left if trial.sit(slot) is not None)
    told = (
        f"at the end {seated} of {len(pairs)} would find room" if len(pairs) > 1 else "it would find no room at the end"
    )
    return f"{told}; {refuse(trial.room, aim.demands).message}"


def _next(left: Sequence[Pair], trial: _Trial) -> Pair:
    """The first whose stop makes room for a successor; the first of all where none does.

    One stop is always enough where all successors are alike and have seats at the end. Say no node has a seat now, and
    one that holds o of ours has o seats once they are gone: with c free, sizes s and successors of size g,
    c + sum(s) >= o * g. If each c + s < g, summing gives c + sum(s) <= o * c + sum(s) < o * g.
    """
    return next((pair for pair in left if trial.makes_room(*pair)), left[0])


@dataclass(slots=True)
class _Trial:
    """Releases and takes on a room that can be taken back."""

    room: Room
    _released: list[tuple[str, Holding]] = field(default_factory=list)
    _seated: list[tuple[str, str]] = field(default_factory=list)

    def makes_room(self, slot: Slot, held: Held) -> bool:
        """Whether a successor finds a seat once this replica is gone; changes nothing."""
        freed = self._free(held)
        seat = find_seat(self.room, slot.aim.demands, slot.aim.name)
        for node, holding in freed:
            self.room.take(node, holding)
        return seat is not None

    def release(self, held: Held) -> None:
        """Free what a replica holds."""
        self._released += self._free(held)

    def _free(self, held: Held) -> list[tuple[str, Holding]]:
        nodes = held.replica.entry.placement.nodes
        freed = ((node, self.room.release(node, held.id)) for node in nodes)
        return [(node, holding) for node, holding in freed if holding is not None]

    def sit(self, slot: Slot) -> Seat | None:
        """Take the seat that a slot would get; None where there is none."""
        seat = find_seat(self.room, slot.aim.demands, slot.aim.name)
        if seat is not None:
            id_ = f"tried {slot.name}"
            seat.take(self.room, id_, slot.name, slot.aim.name)
            self._seated += [(node, id_) for node in seat.nodes]
        return seat

    def clear(self) -> None:
        """Take the seats back."""
        for node, id_ in self._seated:
            self.room.release(node, id_)

    def restore(self) -> None:
        """Give back what was freed."""
        for node, holding in self._released:
            self.room.take(node, holding)
