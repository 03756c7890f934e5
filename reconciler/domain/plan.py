"""What a plan is: one change for every slot, each with its reason and with what it waits on.

`Plan` is the JSON contract of `reconciler plan`.
`Decision` is what the planner returns: the plan, and the assignments that carry out what is scheduled now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from reconciler.domain.base import FORMAT_VERSION, Count, Flag, Frozen, Name, Text
from reconciler.domain.model_spec import Strategy
from reconciler.domain.outlook import ClassPeak, ModelOutlook, TimetableRow
from reconciler.domain.placement import Placement, SlotName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.assignment import RunEntry, StopEntry


class Action(StrEnum):
    """What happens to one slot.

    =========  ======================  =====================
    action     before                  after
    =========  ======================  =====================
    create     None                    where it will run; None while nothing fits
    replace    where it runs           where it will run; None while nothing fits
    update     where it runs           the same: told live, not restarted
    delete     where it runs           None
    none       where it runs, or None  the same
    =========  ======================  =====================
    """

    CREATE = "create"
    REPLACE = "replace"
    UPDATE = "update"
    DELETE = "delete"
    NONE = "none"


class Reason(StrEnum):
    """Why a slot changes, or why it does not; each could answer a support ticket."""

    MATCHES = "matches"
    """What runs is what is desired."""
    STARTING = "starting"
    """What is desired has been started and has not answered yet."""
    NEW = "new"
    """The slot is desired and nothing runs in it."""
    CHANGED = "changed"
    """Fields that reach the process differ; `fields` lists them."""
    RESTART = "restart"
    """The model's restart token, or a person's restart intent, is newer than the replica."""
    DIED = "died"
    """It served and its process ended by itself."""
    UNHEALTHY = "unhealthy"
    """It served and has stopped answering."""
    FAILED = "failed"
    """It never came up; not tried again until a new commit or a person says so."""
    MOVED = "moved"
    """Its node or GPUs no longer qualify: drained, of another class, or deselected."""
    SCALED_DOWN = "scaled-down"
    """The model wants fewer replicas."""
    REMOVED = "removed"
    """The model's file is gone."""
    PREEMPTED = "preempted"
    """A more important model is below its minimum and takes its GPUs."""
    DUPLICATE = "duplicate"
    """Another replica holds the same slot and is kept."""
    STOPPING = "stopping"
    """It is being stopped already."""
    UNREACHABLE = "unreachable"
    """Its node does not answer: what runs there is unknown and is left alone."""
    SUSPENDED = "suspended"
    """The model is suspended; nothing about it changes."""


class FieldChange(Frozen):
    """One declared field that differs, dotted (`env.HF_HOME`), with both values as plain JSON; secrets by name only."""

    field: Text
    """Its name."""
    before: Any = None
    """Its value so far; null where it was not set."""
    after: Any = None
    """Its value from now on; null where it is no longer set."""


class Schedule(Frozen):
    """Whether a change happens now, or what it waits on."""

    kind: Literal["now", "waiting"] = "now"
    """now, or waiting on something."""
    on: tuple[Text, ...] = ()
    """Slots or node names; [] for now, and where no single one would help."""
    message: str | None = None
    """One clause, such as `after /0 is ready (one surge at a time)`."""


class Change(Frozen):
    """What happens to one slot."""

    model: Name
    """Name of the model."""
    replica: SlotName
    """The slot, such as llama-70b/0."""
    action: Action
    """create, replace, update, delete or none."""
    strategy: Literal[Strategy.SURGE, Strategy.IN_PLACE] | None = None
    """How it is replaced; None for everything but replace."""
    reason: Reason
    """Why, in one word."""
    fields: tuple[FieldChange, ...] = ()
    """What differs in the declaration."""
    schedule: Schedule = Schedule()
    """Now, or what it waits on."""
    before: Placement | None = None
    """Where it runs; null where it does not."""
    after: Placement | None = None
    """Where it will run; null where it will not, or cannot yet."""
    message: str | None = None
    """One sentence of detail, such as why it died. For display only: nothing may depend on it."""


class Blocked(Frozen):
    """Something desired that cannot happen until a person, a commit or the fleet changes something."""

    model: Name | None = None
    """Name of the model; null for the fleet."""
    rule: Text
    """Slug of the rule that says so."""
    message: Text
    """What is in the way."""
    hint: str | None = None
    """What to do about it."""
    digest: str | None = None
    """For `reconciler approve DIGEST`, where a limit was hit."""


class HeldBack(Frozen):
    """A suspended model of which something would change; nothing of that is done."""

    model: Name
    """Its name."""
    author: str | None = None
    """Who suspended it; null where its file says `suspend: true`."""
    reason: str | None = None
    """In their words."""
    expires_at: datetime | None = None
    """When the suspension ends by itself; null where it does not."""
    changes: tuple[Change, ...] = ()
    """What would be done without it."""


class Impact(Frozen):
    """The sum of a plan."""

    replaced: Count = 0
    """Replicas that are replaced."""
    created: Count = 0
    """Replicas that are started."""
    deleted: Count = 0
    """Replicas that are stopped for good."""
    unchanged: Count = 0
    """Replicas that nothing happens to."""
    seconds: float | None = None
    """Estimated; None where no load time is known."""
    outage_seconds: float | None = None
    """Longest time any model has no ready replica, estimated; 0 for none, None where not known."""


class Plan(Frozen):
    """What would happen, as `plan --format json` prints it; changes sorted by model, then ordinal."""

    format_version: str = FORMAT_VERSION
    """Of this answer: a higher minor adds fields."""
    commit: str | None = None
    """None for a plan of the work tree."""
    tree: str | None = None
    """Id of the tree of `cluster/`."""
    digest: Text
    """Of everything below: the same changes give the same digest."""
    complete: Flag = True
    """False when only some models were planned."""
    changes: tuple[Change, ...] = ()
    """One for each slot."""
    blocked: tuple[Blocked, ...] = ()
    """What cannot happen yet."""
    impact: Impact = Impact()
    """The sum of it."""
    models: tuple[ModelOutlook, ...] = ()
    """What it means for each model that changes; for display, worked out after the plan (`planning.outlook`)."""
    gpus: tuple[ClassPeak, ...] = ()
    """GPUs in use now and at the most, for each class that it moves; for display."""
    held_back: tuple[HeldBack, ...] = ()
    """What suspensions hold back; for display, worked out after the plan (`planning.held_back`)."""
    timetable: tuple[TimetableRow, ...] = ()
    """With `--simulate`: what would happen when."""

    @property
    def acts(self) -> tuple[Change, ...]:
        """The changes that do something."""
        return tuple(change for change in self.changes if change.action is not Action.NONE)


@dataclass(frozen=True, slots=True)
class NodeOrders:
    """All entries of one node's next assignment: what it keeps, starts and stops. Names every replica it holds."""

    node: str
    entries: tuple[RunEntry | StopEntry, ...]
    changes_something: bool
    """False when the agent already holds just these entries, so that nothing needs to be sent."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the planner decided at one instant."""

    plan: Plan
    orders: Mapping[str, NodeOrders] = field(default_factory=dict)
    """By node name, for every reachable node."""
    look_again_in: timedelta | None = None
    """When something will be due without any event, such as a replica's min_ready."""
    expires_in: timedelta | None = None
    """When an intent or an idle timeout runs out: another look is due then, and nobody waits for it."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Replicas wanted now of each planned model, by name."""
    settled: bool = False
    """Every desired replica is ready, nothing is starting or stopping: there is nothing left to do or to wait for."""
