"""Room now, and room once everything that is leaving has left; built only when something must be placed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from reconciler.placement.demand import demands
from reconciler.placement.room import Holding, build_room
from reconciler.placement.stock import stock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.desired import Desired
    from reconciler.domain.model_spec import ModelSpec, Profile
    from reconciler.domain.observed import Observation
    from reconciler.domain.placement import Shard
    from reconciler.placement.demand import Demand
    from reconciler.placement.fit import Seat
    from reconciler.placement.room import Room
    from reconciler.planning.aim import Aim
    from reconciler.planning.kept import Kept
    from reconciler.planning.matching import Held


@dataclass(slots=True)
class Forecast:
    """Two ledgers: `now` decides what may start, `later` tells waiting from blocked."""

    desired: Desired
    observed: Observation
    aims: Mapping[str, Aim]
    given_up: Mapping[str, str] = field(default_factory=dict)
    """Nodes that take no new replicas though they answer, each with a clause why."""
    kept: Kept | None = None
    """What an earlier plan of nearly the same fleet found."""
    _now: Room | None = None
    _later: Room | None = None
    _leaving: list[Held] = field(default_factory=list)

    @property
    def now(self) -> Room:
        """What is free in this instant, less what this pass gives away: what is stopping still holds its GPUs."""
        if self._now is None:
            kept = self.kept
            reserve = _Reservations(self.desired, self.aims, demands if kept is None else kept.demands).of
            build = partial(self._built, reserve)
            whole = None if kept is None else kept.whole(self.desired, self.observed, self.given_up, reserve, build)
            self._now = build() if whole is None else whole
        return self._now

    def _built(self, reserve: Callable[[RunEntry], tuple[float, int]]) -> Room:
        kept, heard = self.kept, self.observed.reachable
        stocks = [stock(self.desired, node) for node in heard] if kept is None else kept.stocks(self.desired, heard)
        inventory = sorted(self.desired.nodes, key=lambda node: node.name)
        known = None if kept is None else kept.room
        room = build_room(inventory, stocks, self.desired.fleet.name, reserve, self.given_up, known=known)
        self._hold_missing_parts(room, reserve)
        return room

    def _hold_missing_parts(self, room: Room, reserve: Callable[[RunEntry], tuple[float, int]]) -> None:
        """What a node has yet to be told of is not free either."""
        for _, replica in self.observed.replicas():
            entry = replica.entry
            for shard in entry.placement.shards if len(entry.placement.shards) > 1 else ():
                node = room.by_name.get(shard.node)
                if node is not None and entry.id not in node.holdings:
                    memory_gib, cpu_cores = reserve(entry)
                    uuids = tuple(sorted(gpu.uuid for gpu in shard.gpus))
                    slot = f"{entry.model}/{entry.ordinal}"
                    room.take(shard.node, Holding(entry.id, slot, entry.model, uuids, memory_gib, cpu_cores))

    def may_complete(self, entry: RunEntry, node: str) -> bool:
        """Whether a node may be told to run its part of a replica: nothing else holds the GPUs of it."""
        there = self.now.by_name.get(node)
        uuids = [gpu.uuid for shard in entry.placement.shards if shard.node == node for gpu in shard.gpus]
        return there is not None and all(uuid in there.gpus and there.holders[uuid] == 1 for uuid in uuids)

    @property
    def later(self) -> Room:
        """What is free once what is leaving has left and what waits for that has started."""
        if self._later is None:
            self._later = self.now.copy()
            for held in self._leaving:
                _vacate(self._later, held)
        return self._later

    def leaves(self, held: Held) -> None:
        """Note that a replica is leaving, or will leave without anyone's further doing."""
        self._leaving.append(held)
        if self._later is not None:
            _vacate(self._later, held)

    def take_now(self, seat: Seat, id_: str, slot: str, model: str) -> None:
        """Give a seat away in both."""
        if self._later is not None:
            seat.take(self._later, id_, slot, model)
        seat.take(self.now, id_, slot, model)

    def take_later(self, seat: Seat, id_: str, slot: str, model: str, *, reserve: bool) -> None:
        """Promise a seat that is not free yet; with `reserve` nothing else may start on the part of it that is free."""
        seat.take(self.later, id_, slot, model)
        if reserve:
            seat.take(self.now, id_, slot, model)

    def in_the_way(self, seat: Seat) -> tuple[str, ...]:
        """Slots that must leave before a seat of `later` is free now."""
        return tuple(sorted({label for shard in seat.shards for label in self._on(shard)}))

    def _on(self, shard: Shard) -> Iterator[str]:
        there = self.later.by_name[shard.node].holdings
        wanted = {gpu.uuid for gpu in shard.gpus}
        for id_, holding in self.now.by_name[shard.node].holdings.items():
            if id_ not in there and (not wanted or wanted & set(holding.gpus)):
                yield holding.label


def _vacate(room: Room, held: Held) -> None:
    """Free what a replica holds, on each of its nodes."""
    for node in held.replica.entry.placement.nodes:
        room.release(node, held.id)


@dataclass(slots=True)
class _Reservations:
    """Host RAM and cores of running replicas, from the profile that would run them so, else as they were declared."""

    desired: Desired
    aims: Mapping[str, Aim]
    demands_of: Callable[[Desired, ModelSpec], tuple[Demand, ...]]
    _profiles_by_model: dict[str, Mapping[str, Profile]] = field(default_factory=dict)

    def of(self, entry: RunEntry) -> tuple[float, int]:
        """GiB and cores."""
        if entry.model not in self._profiles_by_model:
            aim, spec = self.aims.get(entry.model), self.desired.model_by_name.get(entry.model)
            ways = aim.demands if aim is not None else self.demands_of(self.desired, spec) if spec is not None else ()
            self._profiles_by_model[entry.model] = {each: way.profile for way in reversed(ways) for each in way.digests}
        declared = self._profiles_by_model[entry.model].get(entry.digest) or entry.declaration
        return declared.memory_gib or 0.0, declared.cpu_cores or 0
