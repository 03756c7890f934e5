"""A whole fleet rehearsed in virtual time: simulated nodes, a history of commits, and the real `run` over both.

What happens is written down as it happens: commits, what is sent, how replicas change, how many serve, what is said.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio

from reconciler.controller.standing import add_intent, read_standing, remove_intents
from reconciler.domain.intent import Intent, IntentKind
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from reconciler.fleet.simulated import Link, SimulatedFleet, SimulatedNodes
from reconciler.fleet.simulated_engine import Course
from reconciler.fleet.simulated_node import SimulatedNode
from reconciler.views.placement import clock_text
from tests.builders import NOON, a_node, gpus_of
from tests.scenarios.cast import Reconciler, intent_words
from tests.scenarios.faults import Faults
from tests.scenarios.history import NODE_SHAPE, History
from tests.scenarios.watch import UNSEEN_SECONDS, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from anyio.abc import TaskGroup

    from reconciler.domain.assignment import RunEntry
    from reconciler.fleet.protocol import Reached
    from reconciler.fleet.simulated_replica import SimulatedReplica


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
    taken_back: set[str] = field(default_factory=set)
    """Ids of intents."""
    _started: int = 0
    _said_at: dict[str, float] = field(default_factory=dict)
    """By id of an intent."""
    _tasks: TaskGroup | None = None

    def __post_init__(self) -> None:
        self.watch = Watch(self.nodes, self._cut_off)
        self.nodes.course_of = self._course
        self.nodes.on_change = self._changed

    # The cast.

    def add_node(self, name: str, given: Mapping[str, Any] | None = None) -> SimulatedNode:
        shape = {**NODE_SHAPE, **(given or {})}
        gpus = gpus_of(a_node(name, gpus=shape["gpus"], gpu_class=shape["gpu_class"]))
        node = SimulatedNode(name, gpus, tuple(shape.get("installed", Engine)), self.nodes, NOON)
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
        sha = self.history.commit(subject, NOON + timedelta(seconds=anyio.current_time()))
        self.write(f"commit {sha[:7]}: {subject}")
        self.hint()
        return sha

    def say(
        self, kind: IntentKind, model: str | None = None, *, digest: str | None = None, lasts: float | None = None
    ) -> None:
        """A person gives an instruction to the reconciler `run`: one row in its state directory."""
        now = self.wall_clock()
        intent = Intent(
            id=f"{kind}-{len(self._said_at):05}",
            kind=kind,
            model=model,
            digest=digest,
            author="ada",
            created_at=now,
            expires_at=None if lasts is None else now + timedelta(seconds=lasts),
        )
        self._said_at[intent.id] = anyio.current_time()
        add_intent(self.state / "run", intent)
        if "run" in self.reconcilers:
            self.reconcilers["run"].words[intent.id] = intent_words(intent)
        self.hint()

    def is_known(self, intent: Intent) -> bool:
        """Whether the pass that has just ended knew of it: what was suspended meanwhile may have changed in it."""
        said_at = self._said_at.get(intent.id, -UNSEEN_SECONDS)
        return intent.kind is not IntentKind.SUSPEND or anyio.current_time() - said_at >= UNSEEN_SECONDS

    def take_back(self, kind: IntentKind | None = None) -> None:
        """A person takes back all instructions of a kind, or of every kind."""
        found = read_standing(self.state / "run").intents
        gone = [each for each in found if kind in {None, each.kind}]
        remove_intents(self.state / "run", gone)
        self.taken_back |= {each.id for each in gone}
        self.hint()

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
    faults = Faults(stage.watch.broken)
    async with anyio.create_task_group() as tasks:
        stage._tasks = tasks
        logging.getLogger("reconciler").addHandler(faults)
        tasks.start_soon(stage.nodes.keep_time)
        try:
            yield stage
        finally:
            for reconciler in stage.reconcilers.values():
                reconciler.fleet.is_cut = True  # nothing of the end belongs to the story
            logging.getLogger("reconciler").removeHandler(faults)
            tasks.cancel_scope.cancel()
