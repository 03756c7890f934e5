"""A whole fleet rehearsed in virtual time: simulated nodes, a history of commits, and the real `run` over both.

What happens is written down as it happens: commits, what is sent, how replicas change, how many serve, what is said.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio

from reconciler.controller.commits import Commits
from reconciler.controller.ground import Ground
from reconciler.controller.run import Hints, Outside, keep_for_ever
from reconciler.domain.assignment import Assignment, Holder, RunEntry, StopEntry
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from reconciler.fleet.simulated import Link, SimulatedFleet, SimulatedNodes
from reconciler.fleet.simulated_engine import Course
from reconciler.fleet.simulated_node import SimulatedNode
from reconciler.views.placement import clock_text, indices_text
from tests.builders import NOON, a_node, gpus_of, slot_of
from tests.scenarios.history import NODE_SHAPE, History
from tests.scenarios.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any, TypeVar

    from anyio.abc import TaskGroup

    from reconciler.controller.attempt import Pass
    from reconciler.domain.desired import Desired
    from reconciler.fleet.protocol import Reached
    from reconciler.fleet.simulated_replica import SimulatedReplica

    T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rule:
    """Launches that it names take its course; None names all."""

    course: Course
    model: str | None = None
    ordinal: int | None = None
    node: str | None = None
    context: int | None = None

    def takes(self, entry: RunEntry, node: str) -> bool:
        asked = (self.model, self.ordinal, self.node, self.context)
        given = (entry.model, entry.ordinal, node, entry.declaration.context)
        return all(each is None or each == found for each, found in zip(asked, given, strict=True))


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
        self.stage.watch.passed(done, self.commits.aim.desired, self.stage.nodes.now)
        blocked = {
            f"{each.rule}: {each.message}" + (f" → {each.hint}" if each.hint else "")
            for each in done.decision.plan.blocked
        } | ({done.held_back} if done.held_back else set())
        for line in sorted(blocked - self.blocked):
            self.stage.write(f"{self.name} is blocked by {line}")
        self.blocked = blocked

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


@dataclass
class Rehearsal:
    """The stage: create it inside the virtual loop, then `open` it for a block."""

    state: Path
    history: History = field(default_factory=History)
    nodes: SimulatedNodes = field(default_factory=SimulatedNodes)
    rules: list[Rule] = field(default_factory=list)
    """The newest that takes a launch decides."""
    lines: list[str] = field(default_factory=list)
    reconcilers: dict[str, Reconciler] = field(default_factory=dict)
    through: Callable[[Reconciler, Reached], Reached] = lambda _, fleet: fleet
    """What stands between a reconciler and its fleet."""
    clock_error: timedelta = timedelta()
    """How far the reconciler's wall clock is off."""
    watch: Watch = field(init=False)
    _started: int = 0
    _tasks: TaskGroup | None = None

    def __post_init__(self) -> None:
        self.watch = Watch(self.nodes, self._cut_off)
        self.nodes.course_of = self._course
        self.nodes.on_change = self._changed

    # The cast.

    def add_node(self, name: str, given: Mapping[str, Any] | None = None) -> SimulatedNode:
        shape = {**NODE_SHAPE, **(given or {})}
        gpus = gpus_of(a_node(name, gpus=shape["gpus"], gpu_class=shape["gpu_class"]))
        node = SimulatedNode(name, gpus, tuple(Engine), self.nodes, NOON)
        self.nodes.add(node)
        return node

    def start(self, name: str = "run") -> Reconciler:
        """Start a reconciler; an earlier one of this name is gone."""
        assert self._tasks is not None
        fleet = SimulatedFleet(self.nodes)
        before = self.reconcilers.get(name)
        if before is not None:
            fleet.links = before.fleet.links  # the same machine, the same network
        self._started += 1
        self.reconcilers[name] = reconciler = Reconciler(name, self._started, self, fleet)
        self._tasks.start_soon(reconciler.run, self.state / name)
        return reconciler

    def crash(self, name: str = "run") -> None:
        """kill -9: what it asked for and was not told stays open, its claims lapse."""
        reconciler = self.reconcilers[name]
        reconciler.fleet.is_cut = True
        reconciler.scope.cancel()

    def commit(self, subject: str) -> str:
        sha = self.history.commit(subject)
        self.write(f"commit {sha[:7]}: {subject}")
        self.hint()
        return sha

    def hint(self) -> None:
        """The work tree's watcher saw something."""
        for reconciler in self.reconcilers.values():
            reconciler.hints.give()

    # Time.

    async def until(self, seconds: float) -> None:
        """Let the world go on up to this instant."""
        with anyio.move_on_after(max(seconds - anyio.current_time(), 0.0)):
            await anyio.sleep_forever()
        self.nodes.advance(anyio.current_time())
        self.watch.check()

    def wall_clock(self) -> Any:
        return NOON + timedelta(seconds=anyio.current_time()) + self.clock_error

    # The transcript.

    def write(self, line: str) -> None:
        self.lines.append(f"{clock_text(anyio.current_time()):>6}  {line}")

    def _cut_off(self) -> list[str]:
        links = (each.fleet.links for each in self.reconcilers.values() if not each.fleet.is_cut)
        return [name for each in links for name, link in each.items() if link is not Link.UP]

    def _course(self, entry: RunEntry, node: str) -> Course:
        return next((rule.course for rule in reversed(self.rules) if rule.takes(entry, node)), Course())

    def _changed(self, at: float, node: str, replica: SimulatedReplica) -> None:
        news = self.watch.changed(at, node, replica)
        if news is None:
            return
        failure = f": {replica.failure}" if replica.state is ReplicaState.FAILED else ""
        serving = self.watch.serving_text(replica.entry.model)
        self.lines.append(f"{clock_text(at):>6}    {replica.id} {news} on {node}{failure}{serving}")


@contextlib.asynccontextmanager
async def opened(stage: Rehearsal) -> Any:
    """Let the world and its reconcilers run for as long as the block does."""
    async with anyio.create_task_group() as tasks:
        stage._tasks = tasks
        tasks.start_soon(stage.nodes.keep_time)
        try:
            yield stage
        finally:
            for reconciler in stage.reconcilers.values():
                reconciler.fleet.is_cut = True  # nothing of the end belongs to the story
            tasks.cancel_scope.cancel()


def _news(entry: Any, held: Mapping[str, SimulatedReplica]) -> str | None:
    match entry:
        case RunEntry() if entry.id not in held:
            (gpus,) = [[gpu.index for gpu in shard.gpus] for shard in entry.placement.shards[:1]]
            where = f" {indices_text(gpus)}" if gpus else ""
            parts = f" of {len(entry.placement.shards)} parts" if len(entry.placement.shards) > 1 else ""
            return f"run {entry.id}{where}{parts}"
        case RunEntry() if entry.attempt > held[entry.id].entry.attempt:
            return f"run {entry.id} again"
        case StopEntry() if entry.id in held and held[entry.id].stop is None:
            return f"stop {entry.id}"
        case _:
            return None


async def _at_once(act: Callable[[], T]) -> T:
    return act()
