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
from reconciler.planning.starts import Starts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import timedelta

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


def agree(slots: Sequence[object], one: str, many: str) -> str:
    """The verb for so many slots: `has` of one, `have` of several."""
    return one if len(slots) == 1 else many


def after_stop(on: Sequence[str], model: str) -> Schedule:
    """A schedule that waits until these have gone."""
    return waiting(f"after {spoken(on, model)} {agree(on, 'has', 'have')} stopped", on)


def after_room(on: Sequence[str], model: str | None = None) -> Schedule:
    """A schedule that waits until these have made room."""
    return waiting(f"after {spoken(on, model)} {agree(on, 'has', 'have')} made room", on)


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
    stopping_ids: frozenset[str] = frozenset()
    """Those of them that are on their way out."""
    kept_back: Mapping[str, str] = field(default_factory=dict)
    """Models that do not stop although their file is gone: why, one clause each."""
    history: History = field(default_factory=History)
    """What failed, and what served before it."""
    brake: str | None = None
    """Why nothing that serves is replaced or stopped in this pass; None in a calm fleet."""
    count_starts: Callable[[], Starts] = lambda: Starts(1)
    """Asked once, when something is to start."""
    changes: dict[str, Change] = field(default_factory=dict)
    """By slot."""
    stops: dict[str, StopEntry] = field(default_factory=dict)
    """What is told to stop in this pass, by id."""
    runs: dict[str, RunEntry] = field(default_factory=dict)
    """What is started or launched again in this pass, by id."""
    blocked: list[Blocked] = field(default_factory=list)
    unplaced: list[Slot] = field(default_factory=list)
    """Slots without a replica that nothing on its way out would make room for."""
    elsewhere: set[str] = field(default_factory=set)
    """Slots whose failed launch is tried on other GPUs, now or when these are free."""
    _starts: Starts | None = None

    @property
    def starts(self) -> Starts:
        """What is starting, with what this pass has begun."""
        if self._starts is None:
            self._starts = self.count_starts()
        return self._starts

    @property
    def next_turn_in(self) -> timedelta | None:
        """When a start that stalls makes way for what waits; None where nothing waits for its turn."""
        return self._starts.next_in if self._starts is not None and self._starts.has_refused else None

    def turn(self, slot: Slot, seat: Seat) -> Schedule | None:
        """What a start on this seat waits for because so much else is starting; None when it may begin now."""
        refused = self.starts.refuse(slot.name, seat.nodes)
        return None if refused is None else waiting(*refused)

    def clear(self, model: ModelSlots, slot: Slot, held: Held, seat: Seat) -> None:
        """Stop a replica so that its successor can start on this seat, which counts from now on."""
        self.stop(model, held)
        self.starts.begin(slot.name, slot.name, seat.nodes)

    def still_there(self, seat: Seat, before: Held) -> tuple[str, ...]:
        """Slots that hold GPUs of a seat of `forecast.later`, apart from this replica, and are not told to stop yet."""
        going = {before.id, *self.stops, *self.stopping_ids}
        there = self.forecast.now.by_name
        return tuple(
            sorted(
                {
                    holding.label
                    for shard in seat.shards
                    for id_, holding in there[shard.node].holdings.items()
                    if id_ not in going and {gpu.uuid for gpu in shard.gpus} & {*holding.gpus}
                }
            )
        )

    def relaunch(self, slot: Slot, entry: RunEntry) -> None:
        """Launch a failed replica again in this pass, under its id: its agent does so too, so it waits for nobody."""
        update = {"attempt": entry.attempt + 1, "retry": slot.aim.retry, "ready_timeout": slot.aim.policy.ready_timeout}
        self.runs[entry.id] = entry.model_copy(update=update)
        self.starts.begin(entry.id, slot.name, entry.placement.nodes)

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

    def fill(self, slot: Slot, schedule: Schedule, after: Successor | None = None) -> None:
        """Enter a slot in which nothing serves: one that still holds an outdated replica is replaced, else created."""
        outdated = next((held for held in slot.held if held.mismatch is not None), None)
        if outdated is not None:
            self.replace(slot, outdated, Strategy.IN_PLACE, schedule, after)
        else:
            self.decide(slot, Action.CREATE, Reason.NEW, after=after.placement if after else None, schedule=schedule)

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
        self.starts.begin(placement.id, slot.name, seat.nodes)
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
