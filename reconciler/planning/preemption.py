"""A model below its minimum that finds no room takes it from less important ones, and only where it will then fit.

critical > standard > opportunistic. What others have above their minimum goes first, of its own class too; then the
minimums of lower classes. Nothing is stopped before a seat is proved, and the seat is reserved until it is taken.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.plan import Action, Reason
from reconciler.placement.fit import find_seat
from reconciler.planning.aim import importance, importance_rank
from reconciler.planning.draft import Successor, after_room
from reconciler.planning.matching import Match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reconciler.domain.plan import Schedule
    from reconciler.placement.demand import Demand
    from reconciler.placement.fit import Seat
    from reconciler.placement.room import Holding, Room
    from reconciler.planning.counting import ModelSlots, Slot
    from reconciler.planning.draft import Draft
    from reconciler.planning.matching import Held

_LOWER_SURPLUS, _OWN_SURPLUS, _LOWER_MINIMUM = range(3)
"""In which order replicas are taken."""

_NODES_TRIED = 16
"""Nodes that could be cleared for one replica, of which the cheapest is taken: more seldom differ."""

_TAKEN = frozenset({Match.MATCHING, Match.OUTDATED, Match.FAILED})


@dataclass(frozen=True, slots=True)
class _Victim:
    model: ModelSlots
    slot: Slot
    held: Held
    cost: tuple[int, int, int, str]
    """Stage, then the least important class, then the highest ordinal, then by name."""

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.held.replica.entry.placement.nodes


@dataclass(frozen=True, slots=True)
class _Way:
    """Whom to stop, and the seat that this makes certain."""

    victims: tuple[_Victim, ...]
    seat: Seat


def preempt(slot: Slot, models: Sequence[ModelSlots], draft: Draft) -> tuple[Schedule, Successor] | None:
    """Stop what must go for this slot, and what it then waits for; None where nothing may go, or it would not help."""
    spec = slot.aim.spec
    if spec is None or slot.ordinal >= spec.replicas or draft.brake is not None:
        return None
    way = _cheapest(slot, _victims(slot, models, draft), draft)
    if way is None:
        return None
    mine = importance(spec)
    for victim in way.victims:
        draft.stop(victim.model, victim.held)
        placement = victim.held.replica.entry.placement
        message = f"{slot.name} is {mine} and below its minimum"
        draft.decide(victim.slot, Action.DELETE, Reason.PREEMPTED, before=placement, message=message)
    in_the_way = draft.forecast.in_the_way(way.seat)
    names = [victim.slot.name for victim in way.victims]
    names += [each for each in in_the_way if each not in names]
    return after_room(tuple(names)), draft.promise(slot, way.seat, reserve=True)


def _victims(slot: Slot, models: Sequence[ModelSlots], draft: Draft) -> list[_Victim]:
    """What may go for this slot, the cheapest first. A slot with several replicas is being replaced and left alone."""
    found = []
    for model in models:
        if model.aim.name == slot.aim.name or model.aim.spec is None:
            continue
        for each in model.slots:
            cost = _cost(slot, model, each)
            if cost is None or each.is_frozen or len(each.held) != 1 or not each.is_wanted:
                continue
            held = each.held[0]
            if held.match in _TAKEN and held.id not in draft.stops and held.id not in draft.runs:
                found.append(_Victim(model, each, held, cost))
    return sorted(found, key=lambda victim: victim.cost)


def _cost(slot: Slot, model: ModelSlots, each: Slot) -> tuple[int, int, int, str] | None:
    spec = model.aim.spec
    assert spec is not None, model.aim.name  # noqa: S101  # the caller leaves out what has no file
    mine, theirs = importance_rank(importance(slot.aim.spec)), importance_rank(importance(spec))
    is_surplus = each.ordinal >= spec.replicas
    if theirs > mine:
        stage = _LOWER_SURPLUS if is_surplus else _LOWER_MINIMUM
    elif theirs == mine and is_surplus:
        stage = _OWN_SURPLUS
    else:
        return None
    return stage, -theirs, -each.ordinal, each.name


def _cheapest(slot: Slot, victims: Sequence[_Victim], draft: Draft) -> _Way | None:
    """The profiles in their order; of each the earliest stage that makes room, and the fewest replicas of it."""
    for demand in slot.aim.demands:
        for stage in (_LOWER_SURPLUS, _OWN_SURPLUS, _LOWER_MINIMUM):
            able = [victim for victim in victims if victim.cost[0] <= stage]
            if not any(victim.cost[0] == stage for victim in able):
                continue
            ways = [way for each in _sets(able, demand, draft) if (way := _way(slot, each, demand, draft)) is not None]
            if ways:
                return min(ways, key=lambda way: (len(way.victims), [victim.cost for victim in way.victims]))
    return None


def _sets(victims: Sequence[_Victim], demand: Demand, draft: Draft) -> list[Sequence[_Victim]]:
    """What could be cleared for one replica: node by node where it needs one, everything where it needs several."""
    if demand.nodes > 1:
        return [victims]
    by_node: Mapping[str, list[_Victim]] = defaultdict(list)
    for victim in victims:
        for node in victim.nodes:
            by_node[node].append(victim)
    later = draft.forecast.later
    able = [(len(each), node) for node, each in by_node.items() if _could(later, node, each, demand)]
    return [by_node[node] for _, node in sorted(able)[:_NODES_TRIED]]


def _could(later: Room, node: str, victims: Iterable[_Victim], demand: Demand) -> bool:
    """Whether it has the GPUs, if all of these went; a quick look before the trial."""
    there = later.by_name.get(node)
    if there is None or demand.gpu_class is None:
        return there is not None
    held = sum(len(there.holdings[victim.held.id].gpus) for victim in victims if victim.held.id in there.holdings)
    return len(there.free.get(demand.gpu_class, ())) + held >= demand.gpus


def _way(slot: Slot, victims: Sequence[_Victim], demand: Demand, draft: Draft) -> _Way | None:
    """Let go of one after the other until there is a seat; then keep whoever is not in the way of it."""
    room, seat = draft.forecast.later.copy(), None
    freed: list[tuple[_Victim, list[tuple[str, Holding]]]] = []
    for victim in victims:
        parts = ((node, room.release(node, victim.held.id)) for node in victim.nodes)
        freed.append((victim, [(node, part) for node, part in parts if part is not None]))
        seat = find_seat(room, [demand], slot.aim.name)
        if seat is not None:
            break
    if seat is None:
        return None
    gone = []
    for victim, held in reversed(freed):  # the dearest are spared first
        for node, part in held:
            room.take(node, part)
        spared = find_seat(room, [demand], slot.aim.name)
        if spared is None:
            gone.append(victim)
            for node, part in held:
                room.release(node, part.id)
        else:
            seat = spared
    gone.reverse()
    tied = _tied(gone, seat, draft)
    return None if tied is None else _Way((*gone, *tied), seat)


def _tied(gone: Sequence[_Victim], seat: Seat, draft: Draft) -> list[_Victim] | None:
    """What holds a GPU of the seat and would leave only once a victim serves in its place.

    Without the victim it stays. What its model does not want any more, of a lower class, goes with it; anything else
    makes the seat uncertain: None.
    """
    wanted = {gpu.uuid for shard in seat.shards for gpu in shard.gpus}
    found = []
    for model in {victim.model.aim.name: victim.model for victim in gone}.values():
        stage = min(victim.cost[0] for victim in gone if victim.model is model)
        for slot in model.slots:
            for held in slot.held:
                is_known = held.id in draft.stops or any(held is victim.held for victim in gone)
                if is_known or held.match is Match.STOPPING or not wanted & held.replica.entry.placement.gpu_uuids:
                    continue
                if slot.is_wanted or stage == _OWN_SURPLUS:
                    return None
                found.append(_Victim(model, slot, held, (stage, 0, -slot.ordinal, slot.name)))
    return found
