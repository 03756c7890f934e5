"""Anything, in any order, in virtual time: commits and mistakes, nodes and networks, agents, engines and reconcilers.

The real `run` works on simulated nodes. All the way nothing is planned that the linter refuses, no card holds two
engines, nothing of others is touched, and what serves stops only where enough is left. After the last fault it comes to
rest at what is wanted, and then says nothing more. `RECONCILER_EXAMPLES=1000` runs as many.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ForeignProcess
from reconciler.fleet.simulated import Link
from tests.builders import uuid
from tests.scenarios.draws import NODES, WELL, courses, durations, names, nodes, specs
from tests.scenarios.living import Living, live
from tests.scenarios.rehearsal import Rule

if TYPE_CHECKING:
    from reconciler.fleet.simulated_engine import Course

EXAMPLES = int(os.environ.get("RECONCILER_EXAMPLES", "25"))
STEPS = 20


class Fleet(Living):
    """One fleet and all that can happen to it."""

    # What people do.

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

    @rule(
        kind=st.sampled_from([IntentKind.RETRY, IntentKind.RESTART, IntentKind.SUSPEND, IntentKind.WAKE]),
        name=names,
        lasts=st.sampled_from([None, 10, 90]),
    )
    @live
    async def person_says(self, kind: IntentKind, name: str, lasts: int | None) -> None:
        self.stage.write(f"* somebody says: {kind} {name}" + (f" for {lasts} s" if lasts else ""))
        self.stage.say(kind, name, lasts=lasts)

    @rule()
    @live
    async def person_takes_it_back(self) -> None:
        self.stage.write("* whatever was said is taken back")
        self.stage.take_back()

    @rule(which=st.integers(0, 5), lasts=st.sampled_from([1, 30, 90]))
    @live
    async def somebody_asks(self, which: int, lasts: int) -> None:
        replica = self.pick(which)
        if replica is not None and replica.process is not None:
            replica.process.busy_until = self.loop.time() + lasts

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

    @rule(name=nodes, index=st.integers(0, 1), there=st.booleans())
    @live
    async def stranger(self, name: str, index: int, there: bool) -> None:
        node = self.node(name)
        held = {gpu for gpu, _ in node.held_gpus(self.loop.time())}
        if node.is_up and there and uuid(name, index) not in held:
            self.stage.write(f"* somebody trains on GPU {index} of {name}")
            node.foreign.append(ForeignProcess(pid=4242, command="python train.py", gpus=(uuid(name, index),)))
        elif not there:
            node.foreign.clear()
        await self.look()

    @rule(name=nodes, drains=st.booleans())
    @live
    async def drain_node(self, name: str, drains: bool) -> None:
        self.pool[name] = NODES[name] | ({"drain": True} if drains else {})
        self.commit()

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


Fleet.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
test_whatever_happens_promises_hold_and_it_comes_to_rest = pytest.mark.timeout(3_600)(Fleet.TestCase)
