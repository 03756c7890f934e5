"""What one pass has decided so far: a change for each slot, and the entries that carry out what goes now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.domain.assignment import RunEntry, StopEntry
from reconciler.domain.model_spec import Strategy
from reconciler.domain.placement import Placement, replica_id
from reconciler.domain.plan import Action, Blocked, Change, FieldChange, Reason, Schedule
from reconciler.planning.difference import compare
from reconciler.planning.history import History
from reconciler.planning.meeting import addresses, port_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reconciler.domain.declaration import Declaration
    from reconciler.domain.desired import RolloutPolicy
    from reconciler.placement.fit import Seat
    from reconciler.planning.counting import ModelSlots, Slot
    from reconciler.planning.forecast import Forecast
    from reconciler.planning.matching import Held

NOW = Schedule()


def waiting(message: str, on: Iterable[str] = ()) -> Schedule:
    """A schedule that waits, with the slots or nodes it waits on and a clause for people."""
    return Schedule(kind="waiting", on=tuple(dict.fromkeys(on)), message=message)


def spoken(slots: Sequence[str], model: str | None = None) -> str:
    """`/0`, `/0 and /1`, or `/0, /1 and 5 more` where one model is spoken of; without, the first in full."""
    short = [slots[0], *(slot.removeprefix(slots[0].rpartition("/")[0]) for slot in slots[1:])] if slots else []
    if model is not None:
        short = [slot.removeprefix(model) if slot.startswith(f"{model}/") else slot for slot in slots]
    if len(short) > 3:  # noqa: PLR2004  # more than three do not help a reader
        return f"{short[0]}, {short[1]} and {len(short) - 2} more"
    return " and ".join(filter(None, [", ".join(short[:-1]), short[-1]])) if short else ""


def is_or_are(slots: Sequence[str]) -> str:
    """The verb for so many slots."""
    return "is" if len(slots) == 1 else "are"


def stop_entry(id_: str, policy: RolloutPolicy) -> StopEntry:
    """Drain and stop by a model's policy."""
    return StopEntry(id=id_, withdraw_delay=policy.withdraw_delay, drain_timeout=policy.drain_timeout)


@dataclass(frozen=True, slots=True)
class Successor:
    """A replica that takes over a slot: where, and as what."""

    placement: Placement
    declaration: Declaration


@dataclass(slots=True)
class Draft:
    """The one value that the steps of a pass write to; every slot gets exactly one change."""

    fleet: str
    forecast: Forecast
    held_ids: frozenset[str]
    """Ids of all replicas that any node reports."""
    kept_back: Mapping[str, str] = field(default_factory=dict)
    """Models that do not stop although their file is gone: why, one clause each."""
    history: History = field(default_factory=History)
    """What failed, and what served before it."""
    brake: str | None = None
    """Why nothing that serves is replaced or stopped in this pass; None in a calm fleet."""
    changes: dict[str, Change] = field(default_factory=dict)
    """By slot."""
    stops: dict[str, StopEntry] = field(default_factory=dict)
    """What is told to stop in this pass, by id."""
    runs: dict[str, RunEntry] = field(default_factory=dict)
    """What is started or launched again in this pass, by id."""
    blocked: list[Blocked] = field(default_factory=list)
    unplaced: list[Slot] = field(default_factory=list)
    """Slots without a replica that nothing on its way out would make room for."""

    def decide(
        self,
        slot: Slot,
        action: Action,
        reason: Reason,
        *,
        before: Placement | None = None,
        after: Placement | None = None,
        schedule: Schedule = NOW,
        fields: tuple[FieldChange, ...] = (),
        strategy: Strategy | None = None,
        message: str | None = None,
    ) -> None:
        """Enter the change of a slot."""
        way = None if strategy is None else Strategy.IN_PLACE if strategy is Strategy.IN_PLACE else Strategy.SURGE
        self.changes[slot.name] = Change(
            model=slot.aim.name,
            replica=slot.name,
            action=action,
            strategy=way,
            reason=reason,
            fields=fields,
            schedule=schedule,
            before=before,
            after=after,
            message=message,
        )

    def replace(
        self, slot: Slot, before: Held, strategy: Strategy, schedule: Schedule, after: Successor | None
    ) -> None:
        """Enter the replacement of an outdated replica, with what differs."""
        assert before.mismatch is not None, f"{before.id} is as desired"  # noqa: S101  # only outdated ones come here
        entry, aim = before.replica.entry, slot.aim
        fields: tuple[FieldChange, ...] = ()
        if before.mismatch.reason is Reason.CHANGED and aim.demands:
            fields = compare(entry.declaration, after.declaration if after else aim.demands[0].declaration)
        elif entry.restart != aim.restart:
            fields = (FieldChange(field="restart", before=entry.restart, after=aim.restart),)
        self.decide(
            slot,
            Action.REPLACE,
            before.mismatch.reason,
            before=entry.placement,
            after=after.placement if after else None,
            schedule=schedule,
            fields=fields,
            strategy=strategy,
            message=before.mismatch.message,
        )

    def stop(self, model: ModelSlots, held: Held) -> None:
        """Tell a replica to stop in this pass."""
        self.stops[held.id] = stop_entry(held.id, model.aim.policy)
        model.budget.lose(held)
        self.forecast.leaves(held)

    def start(self, slot: Slot, seat: Seat) -> Successor | None:
        """Start a replica in this pass; None, and nothing started, while its very id is still held."""
        placement = placed(slot, seat)
        if placement.id in self.held_ids:
            return None
        aim = slot.aim
        self.runs[placement.id] = RunEntry(
            id=placement.id,
            fleet=self.fleet,
            model=aim.name,
            ordinal=slot.ordinal,
            placement=placement,
            declaration=seat.demand.declaration,
            digest=seat.demand.digest,
            restart=aim.restart,
            intent=aim.intent,
            retry=aim.retry,
            ready_timeout=aim.policy.ready_timeout,
            addresses=addresses(self.forecast.desired, placement),
            port=port_block(self.forecast.observed, placement, self.runs.values()),
        )
        self.forecast.take_now(seat, placement.id, slot.name, aim.name)
        return Successor(placement, seat.demand.declaration)

    def promise(self, slot: Slot, seat: Seat, *, reserve: bool) -> Successor:
        """Count on a seat that is not free yet; with `reserve` keep others from it until it is."""
        placement = placed(slot, seat)
        # Its own id may still be held on this node by a predecessor that is stopping.
        self.forecast.take_later(seat, f"promised {placement.id}", slot.name, slot.aim.name, reserve=reserve)
        return Successor(placement, seat.demand.declaration)

    def block(self, slot: Slot, rule: str, message: str, hint: str | None = None) -> None:
        """Say that a person, a commit or the fleet must change something before this slot can."""
        self.blocked.append(Blocked(model=slot.aim.name, rule=rule, message=message, hint=hint))


def placed(slot: Slot, seat: Seat) -> Placement:
    """The placement, and with it the id, of a replica of this slot on a seat."""
    aim = slot.aim
    id_ = replica_id(aim.name, slot.ordinal, seat.demand.digest, aim.restart, aim.intent, seat.shards)
    return Placement(id=id_, shards=seat.shards)
