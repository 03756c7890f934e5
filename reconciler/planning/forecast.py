"""Room now, and room once everything that is leaving has left; built only when something must be placed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.placement.demand import demands
from reconciler.placement.room import build_room
from reconciler.placement.stock import stock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.desired import Desired
    from reconciler.domain.model_spec import Profile
    from reconciler.domain.observed import Observation
    from reconciler.placement.fit import Seat
    from reconciler.placement.room import Holding, Room
    from reconciler.planning.aim import Aim
    from reconciler.planning.matching import Held


@dataclass(slots=True)
class Forecast:
    """Two ledgers: `now` decides what may start, `later` tells waiting from blocked."""

    desired: Desired
    observed: Observation
    aims: Mapping[str, Aim]
    _now: Room | None = None
    _later: Room | None = None
    _leaving: list[Held] = field(default_factory=list)

    @property
    def now(self) -> Room:
        """What is free in this instant, less what this pass gives away: what is stopping still holds its GPUs."""
        if self._now is None:
            stocks = [stock(self.desired, node) for node in self.observed.reachable]
            inventory = sorted(self.desired.nodes, key=lambda node: node.name)
            self._now = build_room(
                inventory, stocks, self.desired.fleet.name, _Reservations(self.desired, self.aims).of
            )
        return self._now

    @property
    def later(self) -> Room:
        """What is free once what is leaving has left and what waits for that has started."""
        if self._later is None:
            self._later = self.now.copy()
            for held in self._leaving:
                self._later.release(held.node, held.id)
        return self._later

    def leaves(self, held: Held) -> None:
        """Note that a replica is leaving, or will leave without anyone's further doing."""
        self._leaving.append(held)
        if self._later is not None:
            self._later.release(held.node, held.id)

    def take_now(self, seat: Seat, holding: Holding) -> None:
        """Give a seat away in both."""
        if self._later is not None:
            self._later.take(seat.node, holding)
        self.now.take(seat.node, holding)

    def take_later(self, seat: Seat, holding: Holding, *, reserve: bool) -> None:
        """Promise a seat that is not free yet; with `reserve` nothing else may start on the part of it that is free."""
        self.later.take(seat.node, holding)
        if reserve:
            self.now.take(seat.node, holding)

    def in_the_way(self, seat: Seat) -> tuple[str, ...]:
        """Slots that must leave before a seat of `later` is free now."""
        there = self.later.by_name[seat.node].holdings
        wanted = {gpu.uuid for gpu in seat.gpus}
        return tuple(
            sorted(
                {
                    holding.label
                    for id_, holding in self.now.by_name[seat.node].holdings.items()
                    if id_ not in there and (not wanted or wanted & set(holding.gpus))
                }
            )
        )


@dataclass(slots=True)
class _Reservations:
    """Host RAM and cores of running replicas, from the profile that would run them so, else as they were declared."""

    desired: Desired
    aims: Mapping[str, Aim]
    _profiles_by_model: dict[str, Mapping[str, Profile]] = field(default_factory=dict)

    def of(self, entry: RunEntry) -> tuple[float, int]:
        """GiB and cores."""
        if entry.model not in self._profiles_by_model:
            aim, spec = self.aims.get(entry.model), self.desired.model_by_name.get(entry.model)
            ways = aim.demands if aim is not None else demands(self.desired, spec) if spec is not None else ()
            self._profiles_by_model[entry.model] = {way.digest: way.profile for way in reversed(ways)}
        declared = self._profiles_by_model[entry.model].get(entry.digest) or entry.declaration
        return declared.memory_gib or 0.0, declared.cpu_cores or 0
