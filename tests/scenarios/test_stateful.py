"""Anything, in any order, in virtual time: commits and mistakes, nodes and networks, agents, engines and reconcilers.

The real `run` works on simulated nodes. All the way nothing is planned that the linter refuses, no card holds two
engines, nothing of others is touched, and what serves stops only where enough is left. After the last fault it comes to
rest at what is wanted, and then says nothing more. `RECONCILER_EXAMPLES=1000` runs as many.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from reconciler.domain.observed import ReplicaState
from reconciler.fleet.simulated import Link
from reconciler.fleet.virtual_clock import VirtualLoop
from tests.builders import uuid
from tests.scenarios.conftest import MEMORY
from tests.scenarios.draws import NODES, WELL, courses, durations, names, nodes, specs
from tests.scenarios.history import fleet_file, model_file, pool_file
from tests.scenarios.rehearsal import Rehearsal, Rule, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from reconciler.fleet.simulated_engine import Course
    from reconciler.fleet.simulated_node import SimulatedNode
    from reconciler.fleet.simulated_replica import SimulatedReplica

LIMITS = {"limits": {"models_removed": "100%", "replicas_removed": "100%"}}
EXAMPLES = int(os.environ.get("RECONCILER_EXAMPLES", "25"))
STEPS = 20
HEALS_WITHIN = 1_500.0
"""Seconds: an agent's longest retry is five minutes, a rollout of all that is wanted here takes three."""
QUIET = 60.0

NO_ROOM = {"rollout/no-surge-room", "inventory/overcommitted"}
"""What may stand at the end: this fleet is small, and a rollout without room waits for a person."""


def live(step: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Take a step inside the machine's loop."""

    @wraps(step)
    def taken(self: Fleet, **drawn: Any) -> None:
        self.loop.run_until_complete(step(self, **drawn))

    return taken


class Fleet(RuleBasedStateMachine):
    """One fleet and all that can happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.stage = Rehearsal(self.folder)
        self.models: dict[str, dict[str, Any]] = {}
        self.done = asyncio.Event()
        self.play: asyncio.Task[None] | None = None

    @initialize(first=specs, second=specs)
    @live
    async def begin(self, first: dict[str, Any], second: dict[str, Any]) -> None:
        self.models = {"a": first, "b": second}
        for name, given in NODES.items():
            self.stage.add_node(name, given)
        self.stage.rules.append(Rule(WELL))
        self.commit()
        self.play = self.loop.create_task(self._play())
        await self.after(20)

    async def _play(self) -> None:
        async with opened(self.stage):
            self.stage.start()
            await self.done.wait()

    async def after(self, seconds: float) -> None:
        await self.stage.until(self.loop.time() + seconds)
        if self.play is not None and self.play.done():
            self.play.result()

    @invariant()
    def nothing_was_broken(self) -> None:
        self.stage.watch.check()

    # What people do.

    def commit(self, mistake: dict[str, str] | None = None) -> None:
        files = {"cluster.yaml": fleet_file(**LIMITS), "nodes/pool.yaml": pool_file(NODES)}
        files |= {f"models/{name}.yaml": model_file(name, spec) for name, spec in self.models.items()}
        self.stage.history.files = files | (mistake or {})
        counts = (f"{name} {spec['replicas']} of {spec['context']}" for name, spec in self.models.items())
        self.stage.commit(", ".join(counts) + (" and a mistake" if mistake else ""))

    @rule(name=names, spec=specs, wait=st.sampled_from([0, 1, 12, 40]))
    @live
    async def change(self, name: str, spec: dict[str, Any], wait: int) -> None:
        self.models[name] = spec
        self.commit()
        await self.after(wait)

    @rule(name=names, wait=st.sampled_from([0, 9, 30]))
    @live
    async def another_context(self, name: str, wait: int) -> None:
        if name in self.models:
            self.models[name] = self.models[name] | {"context": self.models[name]["context"] * 2 % 8_191}
            self.commit()
            await self.after(wait)

    @rule(name=names)
    @live
    async def remove(self, name: str) -> None:
        if name in self.models and len(self.models) > 1:
            del self.models[name]
            self.commit()

    @rule(name=names, told=st.booleans())
    @live
    async def rename(self, name: str, told: bool) -> None:
        """Under another name, with `moved` or without."""
        if name in self.models and "c" not in self.models:
            self.models["c"] = self.models.pop(name) | ({"moved": name} if told else {})
            self.commit()

    @rule(text=st.sampled_from(["name: b\ncontxt: 1\n", "", "a: [", "name: other\n"]))
    @live
    async def bad_commit(self, text: str) -> None:
        self.commit({"models/b.yaml": text})

    @rule(back=st.integers(1, 3))
    @live
    async def force_push(self, back: int) -> None:
        history = self.stage.history
        history.push_over(max(1, history.at + 1 - back))
        self.stage.write("HEAD is forced back")
        self.stage.hint()

    @rule(seconds=st.sampled_from([1, 40]))
    @live
    async def git_breaks(self, seconds: int) -> None:
        self.stage.history.broken = "the object database is corrupt"
        await self.after(seconds)
        self.stage.history.broken = None

    @rule(seconds=st.sampled_from([1, 7, 20, 60]))
    @live
    async def time_passes(self, seconds: int) -> None:
        await self.after(seconds)

    # What breaks.

    @rule(name=nodes, seconds=durations)
    @live
    async def crash_node(self, name: str, seconds: int | None) -> None:
        self.stage.write(f"* {name} goes down")
        self.stage.watch.lost(self.loop.time(), name)
        self.node(name).crash(self.loop.time())
        await self.look()
        if seconds is not None:
            await self.after(seconds)
            await self.boot(name)

    @rule(name=nodes)
    @live
    async def boot_node(self, name: str) -> None:
        await self.boot(name)

    async def boot(self, name: str) -> None:
        self.stage.write(f"* {name} is up")
        self.node(name).boot_again(self.loop.time())
        await self.look()

    @rule(name=nodes, link=st.sampled_from([Link.LOST, Link.DEAF]), seconds=durations)
    @live
    async def network(self, name: str, link: Link, seconds: int | None) -> None:
        await self.links(name, link)
        if seconds is not None:
            await self.after(seconds)
            await self.links(name, Link.UP)

    @rule(name=nodes)
    @live
    async def mend_network(self, name: str) -> None:
        await self.links(name, Link.UP)

    async def links(self, name: str, link: Link) -> None:
        self.stage.write(f"* network to {name}: {link}")
        for reconciler in self.stage.reconcilers.values():
            reconciler.fleet.links[name] = link
        await self.look()

    @rule(name=nodes, seconds=st.sampled_from([3, 17, 40]))
    @live
    async def late_assignment(self, name: str, seconds: int) -> None:
        self.stage.write(f"* the next assignment to {name} is {seconds} s late")
        for reconciler in self.stage.reconcilers.values():
            reconciler.fleet.late[name] = float(seconds)

    @rule(name=nodes, seconds=st.sampled_from([0, 5, 30]))
    @live
    async def restart_agent(self, name: str, seconds: int) -> None:
        self.stage.write(f"* the agent of {name} restarts")
        self.node(name).kill_agent()
        await self.look()
        await self.after(seconds)
        self.node(name).start_agent(self.loop.time())
        await self.look()

    @rule(which=st.integers(0, 5))
    @live
    async def kill_engine(self, which: int) -> None:
        replica = self.pick(which)
        if replica is not None and replica.process is not None:
            self.stage.write(f"* the engine of {replica.id} dies")
            replica.process.end(self.loop.time())
            await self.look()

    @rule(which=st.integers(0, 5))
    @live
    async def hang_engine(self, which: int) -> None:
        replica = self.pick(which)
        if replica is not None and replica.process is not None and replica.process.mute_since is None:
            self.stage.write(f"* the engine of {replica.id} hangs")
            replica.process.mute_since = self.loop.time()
            await self.look()

    @rule(name=nodes, index=st.integers(0, 1), answers=st.booleans())
    @live
    async def gpu(self, name: str, index: int, answers: bool) -> None:
        node = self.node(name)
        if node.is_up:
            self.stage.write(f"* GPU {index} of {name} {'answers' if answers else 'is lost'}")
            if answers:
                node.find_gpu(uuid(name, index))
            else:
                node.lose_gpu(uuid(name, index), self.loop.time())
            await self.look()

    @rule(course=courses, name=st.sampled_from([None, "a", "b", "c"]), node=st.sampled_from([None, *sorted(NODES)]))
    @live
    async def launches_go_otherwise(self, course: Course, name: str | None, node: str | None) -> None:
        self.stage.write(f"* launches of {name or 'all'} on {node or 'all'}: {course.failure or course.load_seconds}")
        self.stage.rules.append(Rule(course, model=name, node=node))

    @rule()
    @live
    async def launches_go_well(self) -> None:
        self.stage.rules = [Rule(WELL)]

    @rule(by=st.integers(-100_000, 100_000))
    @live
    async def clock_jumps(self, by: int) -> None:
        self.stage.clock_error += timedelta(seconds=by)

    # Reconcilers.

    @rule(wait=st.sampled_from([0, 2, 35]), name=st.sampled_from(["run", "second"]))
    @live
    async def crash_reconciler(self, wait: int, name: str) -> None:
        if name in self.stage.reconcilers and not self.stage.reconcilers[name].fleet.is_cut:
            self.stage.write(f"* {name} is killed")
            self.stage.crash(name)
            await self.after(wait)
        if name not in self.stage.reconcilers or self.stage.reconcilers[name].fleet.is_cut:
            self.stage.write(f"* {name} is started")
            self.stage.start(name)

    # The end.

    @override
    def teardown(self) -> None:
        try:
            if self.play is not None:
                self.loop.run_until_complete(self._end(self.play))
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    async def _end(self, play: asyncio.Task[None]) -> None:
        try:
            if not self.stage.watch.broken and not play.done():
                await self.heal()
                await self.settle()
        finally:
            self.done.set()
            await asyncio.gather(play, return_exceptions=True)

    async def heal(self) -> None:
        """Nothing is broken any more, and one reconciler is left."""
        self.stage.write("* all is healed")
        now = self.loop.time()
        self.stage.rules = [Rule(WELL)]
        self.stage.history.broken = None
        for node in self.stage.nodes.by_name.values():
            node.boot_again(now)
            node.start_agent(now)
            for gpu in node.gpus:
                node.find_gpu(gpu.uuid)
            for replica in node.replicas.values():
                if replica.process is not None:
                    replica.process.mute_since = None
        for name, reconciler in list(self.stage.reconcilers.items()):
            if name != "run" and not reconciler.fleet.is_cut:
                self.stage.crash(name)
            reconciler.fleet.links.clear()
            reconciler.fleet.late.clear()
        if self.stage.reconcilers["run"].fleet.is_cut:
            self.stage.start()
        self.commit()  # a new commit, so that what failed is tried again
        await self.after(1)
        aim = self.stage.reconcilers["run"].commits.aim
        if aim is None or aim.sha != self.stage.history.head():
            small = {"replicas": 1, "gpus": 1, "moved": None}
            self.models = {name: spec | small for name, spec in self.models.items()}
            self.commit()  # the gate let no more in
        await self.look()

    async def settle(self) -> None:
        """It converges and is then silent."""
        run = self.stage.reconcilers["run"]
        until = self.loop.time() + HEALS_WITHIN
        while True:
            sends, moved = run.sends, self.in_motion()
            await self.after(QUIET)  # longer than the reconciler goes without a pass
            if run.last is not None and sends == run.sends and not moved and not self.in_motion():
                break
            assert self.loop.time() < until, f"it does not come to rest\n{self.story()}"
        decision = run.last.decision
        due = [name for name, each in decision.orders.items() if each.changes_something]
        assert not due, f"at rest, with something left to do on {due}\n{self.story()}"
        blocked = {each.rule for each in decision.plan.blocked}
        assert decision.settled or (blocked and blocked <= NO_ROOM), f"at rest, blocked by {blocked}\n{self.story()}"
        self.stage.watch.check()

    def in_motion(self) -> bool:
        moving = {ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.DRAINING, ReplicaState.STOPPING}
        return any(
            replica.state in moving for node in self.stage.nodes.by_name.values() for replica in node.replicas.values()
        )

    def story(self) -> str:
        return "\n".join(self.stage.lines[-80:])

    # How it is done.

    def node(self, name: str) -> SimulatedNode:
        return self.stage.nodes.by_name[name]

    def pick(self, which: int) -> SimulatedReplica | None:
        held = [replica for node in self.stage.nodes.by_name.values() for replica in node.replicas.values()]
        return held[which % len(held)] if held else None

    async def look(self) -> None:
        self.stage.nodes.advance(self.loop.time())
        self.stage.nodes.wake()
        await self.after(0)


Fleet.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
test_whatever_happens_promises_hold_and_it_comes_to_rest = pytest.mark.timeout(3_600)(Fleet.TestCase)
