"""A failure that is not the launch's but the node's: the replica is launched on other GPUs, never endlessly.

Three things tell the two apart, and nothing else does; the words of a failure decide nothing.

- It has served here (`ever_ready`): the declaration works. It is launched again on its own GPUs as long as these can
  take it, and on any others when they cannot: the driver does not answer for one, another process is on it, it is no
  longer reported, or the node takes no new starts.
- It never came up here, and the same launch serves in another slot: the declaration works, so this node is at fault,
  whatever it is (memory held by something else, a missing driver, a port in use, killed from outside). It is tried on
  another node, at most once on each and on three in all.
- It never came up, serves nowhere, and something else speaks against its node: a GPU of it cannot be used any more, or
  the node takes no new starts and launches of several models are among those that failed. It is tried on one other
  node. On a second it is not: a launch that takes its GPU down with it would go through the whole fleet.

Everything else is held for a new commit or a person's `retry`, as design section 7 says. Agents remember failed
launches by slot and digest, so that nothing here has to be kept between two passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action
from reconciler.placement.fit import find_seat
from reconciler.placement.refusal import refuse
from reconciler.placement.room import Room
from reconciler.planning.draft import NOW, after_stop

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from reconciler.domain.placement import Placement
    from reconciler.domain.plan import Reason, Schedule
    from reconciler.placement.demand import Demand
    from reconciler.placement.fit import Seat
    from reconciler.placement.refusal import Refusal
    from reconciler.planning.counting import ModelSlots, Slot
    from reconciler.planning.draft import Draft
    from reconciler.planning.matching import Held

NODES_TRIED = 3
"""Nodes on which one slot tries a launch that serves elsewhere: two can be bad luck, after three a person is asked.

Each failure leaves a mark on its node, and three in a row close it; a fleet must not be closed for one slot.
"""


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a replica cannot be launched again on its own GPUs."""

    why: str
    """One clause that names node and GPU."""
    is_gpu: bool
    """Whether a GPU is at fault; else its node takes no new starts."""


@dataclass(frozen=True, slots=True)
class Other:
    """Where a failed launch may be tried instead."""

    avoid: frozenset[str]
    """Nodes that are left out."""
    demands: tuple[Demand, ...]


def unfit(placement: Placement, draft: Draft) -> Unfit | None:
    """Why what had this place cannot be launched there again; None when it can."""
    now = draft.forecast.now
    for shard in placement.shards:
        there = now.by_name.get(shard.node)
        if there is None:
            _, why = now.closed.get(shard.node, (None, "has left the inventory"))
            return Unfit(f"{shard.node} {why}", is_gpu=False)
        for gpu in shard.gpus:
            if gpu.uuid not in there.gpus:
                known = there.unusable.get(gpu.uuid)
                why = "is not reported" if known is None else known.reason
                is_ = "is " if why.startswith("held ") else ""
                return Unfit(f"GPU {gpu.index} of {shard.node} {is_}{why}", is_gpu=True)
    return None


def other(model: ModelSlots, slot: Slot, draft: Draft) -> Other | None:
    """Where what failed in this slot, and is not launched again there, may be tried; None where it may not."""
    if slot.served and slot.aim.policy.strategy is Strategy.IN_PLACE:
        return None  # what serves would have to stop first
    failed = next(iter(slot.failed), None)
    lost = None if failed is None else unfit(failed.replica.entry.placement, draft)
    if failed is not None and failed.replica.ever_ready:
        return None if lost is None else Other(draft.history.failed_on(slot), slot.aim.demands)
    digests = {each.launch.digest for each in draft.history.failures_of(slot)}
    nodes = {each.node for each in draft.history.failures_of(slot)}
    if failed is not None:
        digests.add(failed.replica.entry.digest)
        nodes.add(failed.node)
    if len(digests) != 1:
        return None
    (digest,) = digests
    if _serves(model, digest):
        may = len(nodes) < NODES_TRIED
    else:
        speaks = (lost is not None and lost.is_gpu) or any(_is_suspect(node, draft) for node in nodes)
        may = speaks and len(draft.history.nodes_of(digest) | nodes) == 1
    demands = tuple(each for each in slot.aim.demands if digest in each.digests)
    return Other(frozenset(nodes), demands) if may and demands else None


def has_other_place(model: ModelSlots, slot: Slot, draft: Draft) -> bool:
    """Whether what failed in this slot may be tried elsewhere, and has a place there now or later."""
    found = other(model, slot, draft)
    return found is not None and _look(slot, found, draft) is not None


def try_elsewhere(model: ModelSlots, slot: Slot, found: Other, draft: Draft, *, reason: Reason, message: str) -> bool:
    """Launch what failed in this slot on another place, or enter what that waits for; False where there is none."""
    looked = _look(slot, found, draft)
    if looked is None:
        return False
    seat, schedule, stops = looked
    failed = next(iter(slot.failed), None)
    turn = draft.turn(slot, seat) if schedule is NOW else None
    if turn is not None:
        schedule, stops = turn, False
    elif schedule is NOW and failed is None and model.waits_for_stop(slot):
        schedule = after_stop((slot.name,), slot.aim.name)
    if stops and failed is not None:
        draft.stop(model, failed)
    after = draft.start(slot, seat) if schedule is NOW else None
    if after is None:
        schedule = after_stop((slot.name,), slot.aim.name) if schedule is NOW else schedule
        after = draft.promise(slot, seat, reserve=True)
    elif failed is None:
        model.budget.excess += bool(slot.held)
    draft.elsewhere.add(slot.name)
    serving = next(iter(slot.served), None)  # what failed was to replace this one, which serves on
    before = serving or failed
    draft.decide(
        slot,
        Action.CREATE if before is None else Action.REPLACE,
        reason,
        before=None if before is None else before.replica.entry.placement,
        after=after.placement,
        schedule=schedule,
        strategy=None if before is None else Strategy.SURGE if serving else Strategy.IN_PLACE,
        message=message,
    )
    return True


def refusal(found: Other, draft: Draft) -> Refusal:
    """Why there is no other place."""
    return refuse(outside(draft.forecast.later, found.avoid), found.demands)


def outside(room: Room, nodes: Collection[str]) -> Room:
    """The same room without some nodes; for looking only."""
    if not nodes:
        return room
    closed = {name: (room.by_name[name].node, "has failed to start it") for name in nodes if name in room.by_name}
    return Room({name: each for name, each in room.by_name.items() if name not in nodes}, room.closed | closed)


def _is_suspect(node: str, draft: Draft) -> bool:
    """Whether starts failed in a row on a node, and not those of one model alone."""
    failed = (each for each in draft.forecast.observed.reachable if each.name == node)
    models = {launch.model for each in failed for launch in each.failed_launches}
    return node in draft.forecast.given_up and len(models) > 1


def _look(slot: Slot, found: Other, draft: Draft) -> tuple[Seat, Schedule, bool] | None:
    """A seat, what it waits for, and whether what failed is told to stop for it in this pass."""
    failed = next(iter(slot.failed), None)
    nodes = () if failed is None else failed.replica.entry.placement.nodes
    now, later = draft.forecast.now, draft.forecast.later
    seat = _find(now, found, slot, nodes)
    if seat is not None:
        return seat, NOW, True
    seat = _find(later, found, slot, nodes)
    if seat is not None:
        return seat, after_stop(draft.forecast.in_the_way(seat), slot.aim.name), False
    if failed is None:
        return None
    without = later.copy()
    for node in nodes:
        without.release(node, failed.id)
    seat = _find(without, found, slot, ())
    return None if seat is None else (seat, after_stop((slot.name,), slot.aim.name), True)


def _find(room: Room, found: Other, slot: Slot, leaving: Sequence[str]) -> Seat | None:
    return find_seat(outside(room, found.avoid), found.demands, slot.aim.name, leaving=leaving)


def _serves(model: ModelSlots, digest: str) -> bool:
    """Whether the same launch serves somewhere: then the declaration works."""
    held: Sequence[Held] = [held for slot in model.slots for held in slot.held]
    return any(
        each.is_live and each.state is ReplicaState.READY and each.replica.entry.digest == digest for each in held
    )
