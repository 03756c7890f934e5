"""A fleet that lives through anything: how it begins, how it is healed, and what must hold when it has come to rest."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from typing_extensions import override

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ReplicaState
from reconciler.fleet.virtual_clock import VirtualLoop
from tests.scenarios.conftest import MEMORY
from tests.scenarios.draws import NODES, WELL, specs
from tests.scenarios.history import fleet_file, model_file, pool_file
from tests.scenarios.rehearsal import Rehearsal, Rule, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from reconciler.fleet.simulated import Link
    from reconciler.fleet.simulated_node import SimulatedNode
    from reconciler.fleet.simulated_replica import SimulatedReplica

LIMITS = {"limits": {"models_removed": "100%", "replicas_removed": "100%"}}
HEALS_WITHIN = 1_500.0
"""Seconds: an agent's longest retry is five minutes, a rollout of all that is wanted here takes three."""
QUIET = 60.0

NO_ROOM = {"rollout/no-surge-room", "inventory/overcommitted"}
"""What may stand at the end: this fleet is small, and a rollout without room waits for a person."""


def live(step: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Take a step inside the machine's loop."""

    @wraps(step)
    def taken(self: Living, **drawn: Any) -> None:
        self.loop.run_until_complete(step(self, **drawn))

    return taken


class Living(RuleBasedStateMachine):
    """One fleet; what can happen to it are the rules of `test_stateful`."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.stage = Rehearsal(self.folder)
        self.models: dict[str, dict[str, Any]] = {}
        self.pool: dict[str, dict[str, Any]] = dict(NODES)
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

    def commit(self, mistake: dict[str, str] | None = None) -> None:
        files = {"cluster.yaml": fleet_file(**LIMITS), "nodes/pool.yaml": pool_file(self.pool)}
        files |= {f"models/{name}.yaml": model_file(name, spec) for name, spec in self.models.items()}
        self.stage.history.files = files | (mistake or {})
        counts = (f"{name} {spec['scaling']} of {spec['context']}" for name, spec in self.models.items())
        self.stage.commit(", ".join(counts) + (" and a mistake" if mistake else ""))

    async def boot(self, name: str) -> None:
        self.stage.write(f"* {name} is up")
        self.node(name).boot_again(self.loop.time())
        await self.look()

    async def links(self, name: str, link: Link) -> None:
        self.stage.write(f"* network to {name}: {link}")
        for reconciler in self.stage.reconcilers.values():
            reconciler.fleet.links[name] = link
        await self.look()

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
            node.foreign.clear()
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
        self.pool = dict(NODES)
        self.stage.take_back()
        self.stage.say(IntentKind.RETRY)  # nodes that were given up are used again
        self.commit()  # a new commit, so that what failed is tried again
        await self.after(1)
        aim = self.stage.reconcilers["run"].commits.aim
        if aim is None or aim.sha != self.stage.history.head():
            small = {"scaling": {"min": 1}, "gpus": 1, "profile": {}, "moved": None}
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
