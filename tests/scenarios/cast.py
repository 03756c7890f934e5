"""One reconciler of a rehearsal: the real `run` on simulated nodes, and what it sends, written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from reconciler.controller.commits import Commits
from reconciler.controller.ground import Ground
from reconciler.controller.run import Hints, Outside, keep_for_ever
from reconciler.controller.standing import read_standing
from reconciler.domain.assignment import Assignment, Holder, RunEntry, StopEntry
from reconciler.views.placement import indices_text
from tests.builders import slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any, TypeVar

    from reconciler.controller.attempt import Pass
    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.fleet.simulated import SimulatedFleet
    from reconciler.fleet.simulated_replica import SimulatedReplica
    from tests.scenarios.rehearsal import Rehearsal

    T = TypeVar("T")


@dataclass
class Reconciler:
    """One process that runs `run`: it can be stopped as by Ctrl-C, or be killed."""

    name: str
    number: int
    """Of the process, counted over all."""
    stage: Rehearsal
    fleet: SimulatedFleet
    commits: Commits = field(init=False)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    hints: Hints = field(default_factory=Hints)
    last: Pass | None = None
    sends: int = 0
    heard: dict[str, frozenset[str]] = field(default_factory=dict)
    """By node, the slots that it was last heard to hold."""
    blocked: set[str] = field(default_factory=set)
    words: dict[str, str] = field(default_factory=dict)
    """What people have said to it and what it had not done yet, by the intent's id."""

    async def run(self, state: Path) -> None:
        stage = self.stage
        self.commits = Commits(state, self.said, head=stage.history.head, read=stage.history.read)
        outside = Outside(state, self._reach, _at_once, stage.wall_clock)
        with self.scope:
            await keep_for_ever(self.commits, self.holder, self, self.hints, outside)

    @property
    def holder(self) -> Holder:
        machine = f"desk-of-{self.name}"
        return Holder(
            id=f"{self.name}-{self.number}",
            command="run",
            user="ada",
            machine=machine,
            boot_id=f"boot-of-{machine}",
            pid=self.number,
            started_at=1.0,
        )

    def _reach(self, desired: Desired) -> Ground:
        return Ground(self.stage.through(self, Recorded(self.fleet, self)), tuple(node.name for node in desired.nodes))

    # What `run` reports to.

    def passed(self, done: Pass) -> None:
        self.last = done
        assert self.commits.aim is not None
        self._hold_unknown(done)
        now, state = self.stage.wall_clock(), self.stage.state / self.name
        standing = read_standing(state).intents
        live = [each for each in standing if each.is_live(now) and self.stage.is_known(each)]
        self.stage.watch.passed(done, self.commits.aim.desired, live, self.stage.nodes.now)
        self._tell_done({each.id: intent_words(each) for each in standing})
        blocked = {
            f"{each.rule}: {each.message}" + (f" → {each.hint}" if each.hint else "")
            for each in done.decision.plan.blocked
        } | ({done.held_back} if done.held_back else set())
        for line in sorted(blocked - self.blocked):
            self.stage.write(f"{self.name} is blocked by {line}")
        self.blocked = blocked

    def _tell_done(self, words: dict[str, str]) -> None:
        """What people said goes when it is done; what they took back is told where they do."""
        for each in self.words.keys() - words.keys() - self.stage.taken_back:
            self.stage.write(f"{self.name} has done what ada said: {self.words[each]}")
        self.words = words

    def _hold_unknown(self, done: Pass) -> None:
        """Promise 5: what a silent node was last heard to hold is unknown, not gone; nothing starts in its place."""
        self.heard |= {
            node.name: frozenset(slot_of(each.id) for each in node.replicas) for node in done.observed.reachable
        }
        known = {replica.id for _, replica in done.observed.replicas()}
        for orders in done.decision.orders.values():
            for entry in orders.entries if done.sent else ():
                for lost in done.observed.unreachable:
                    if entry.id not in known and slot_of(entry.id) in self.heard.get(lost.name, ()):
                        why = f"{entry.id} is started, though {lost.name}, which is silent, holds its slot"
                        self.stage.watch.broken.append(f"{self.stage.nodes.now:.0f} s: {why}")

    def said(self, message: str) -> None:
        if not self.fleet.is_cut:
            self.stage.write(f"{self.name} says: {message}")


@dataclass
class Recorded:
    """A fleet whose assignments are written down before they are sent."""

    inner: SimulatedFleet
    by: Reconciler

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def assign(self, node: str, assignment: Assignment) -> int:
        self.by.sends += 1
        assert self.by.commits.aim is not None
        self.by.stage.watch.wanted(self.by.commits.aim.desired, self.by.stage.nodes.now)
        held = self.by.stage.nodes.by_name[node].replicas
        news = [_news(entry, held) for entry in assignment.entries]
        self.by.stage.write(f"{self.by.name} → {node}: {', '.join(filter(None, news)) or 'what it has'}")
        return await self.inner.assign(node, assignment)


def intent_words(intent: Intent) -> str:
    """`restart m`."""
    return " ".join(filter(None, [intent.kind, intent.model or intent.digest]))


def _news(entry: Any, held: Mapping[str, SimulatedReplica]) -> str | None:
    match entry:
        case RunEntry() if entry.id not in held:
            (gpus,) = [[gpu.index for gpu in shard.gpus] for shard in entry.placement.shards[:1]]
            where = f" {indices_text(gpus)}" if gpus else ""
            parts = f" of {len(entry.placement.shards)} parts" if len(entry.placement.shards) > 1 else ""
            return f"run {entry.id}{where}{parts}"
        case RunEntry() if entry.attempt > held[entry.id].entry.attempt:
            return f"run {entry.id} again"
        case RunEntry() if entry.declaration.adapters != held[entry.id].entry.declaration.adapters:
            return f"{entry.id} with {', '.join(each.name for each in entry.declaration.adapters) or 'no adapter'}"
        case StopEntry() if entry.id in held and held[entry.id].stop is None:
            return f"stop {entry.id}"
        case _:
            return None


async def _at_once(act: Callable[[], T]) -> T:
    return act()
