"""What the contract tests of `Fleet` are held against: real agents over HTTP, and simulated ones in virtual time."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from signal import SIGKILL
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.to_thread
import psutil

from reconciler.agent.config import AgentConfig
from reconciler.agent.drivers.process import ProcessDriver
from reconciler.agent.local import ensure_agent, socket_path, stop_agent
from reconciler.agent.lock import lock_holder
from reconciler.domain.assignment import Assignment, ClaimRequest, Entry, RunEntry, StopEntry
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import Placement, Shard, replica_id
from reconciler.fleet.http import Endpoint, HttpFleet
from reconciler.fleet.simulated import SimulatedFleet, SimulatedNodes
from reconciler.fleet.simulated_engine import Course
from reconciler.fleet.simulated_node import SimulatedNode
from tests.agent.entries import claim_request, run_entry
from tests.agent.waiting import wait_until
from tests.fleet.real_agent import NODE, RealAgent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from reconciler.domain.observed import ObservedReplica, ReachableNode
    from reconciler.fleet.protocol import Reached

MISSING = "file:/no/such/weights.gguf"
AT_ONCE = timedelta()
WITHIN = 30.0
"""Seconds, for whatever a test waits for: a start of an agent or of a tiny model takes one or two."""


class Side(Protocol):
    """One kind of agent."""

    @property
    def fleet(self) -> Reached:
        """The fleet under test."""
        ...

    @property
    def weights(self) -> str:
        """A source that serves."""
        ...

    async def kill_agent(self) -> None:
        """kill -9."""
        ...

    async def start_agent(self) -> None:
        """Start it again on its journal."""
        ...

    async def kill_engine(self, replica: ObservedReplica) -> None:
        """kill -9."""
        ...


@dataclass
class RealSide:
    """A real agent process on a Unix socket, which runs llama.cpp's server with a tiny model."""

    agent: RealAgent
    config: AgentConfig
    path: Path
    fleet: HttpFleet = field(init=False)

    def __post_init__(self) -> None:
        self.fleet = HttpFleet({NODE: Endpoint(socket=self.agent.socket)})

    @property
    def weights(self) -> str:
        return f"file:{self.path}"

    async def kill_agent(self) -> None:
        await anyio.to_thread.run_sync(self._kill_agent)

    async def start_agent(self) -> None:
        await anyio.to_thread.run_sync(ensure_agent, self.agent.state, self.config)

    def _kill_agent(self) -> None:
        holder = lock_holder(self.agent.state)
        assert holder is not None
        driver = ProcessDriver()
        driver.signal(holder.identity, SIGKILL)
        wait_until(lambda: not driver.alive(holder.identity))

    async def kill_engine(self, replica: ObservedReplica) -> None:
        assert replica.pid is not None
        psutil.Process(replica.pid).send_signal(SIGKILL)


class SimulatedSide:
    """A simulated node of the same make."""

    weights = "file:/weights/tiny.gguf"

    def __init__(self) -> None:
        self.nodes = SimulatedNodes(course_of=_course)
        self.node = SimulatedNode(NODE, (), ("llamacpp",), self.nodes)
        self.nodes.add(self.node)
        self.fleet = SimulatedFleet(self.nodes)

    async def kill_agent(self) -> None:
        self.node.kill_agent()
        self.nodes.wake()

    async def start_agent(self) -> None:
        self.node.start_agent(self.nodes.now)
        self.nodes.wake()

    async def kill_engine(self, replica: ObservedReplica) -> None:
        process = self.node.replicas[replica.id].process
        assert process is not None
        process.end(self.nodes.now)
        self.nodes.advance(self.nodes.now)


def _course(entry: RunEntry, _node: str) -> Course:
    if entry.declaration.source == MISSING:
        return Course(load_seconds=0.0, failure=f"{MISSING} does not exist on this machine")
    return Course(load_seconds=1.0, drain_seconds=1.0, exit_seconds=0.5)


@dataclass
class Talk:
    """One reconciler's conversation with the node."""

    side: Side
    name: str
    epoch: int = 0
    generation: int = 0

    @property
    def fleet(self) -> Reached:
        return self.side.fleet

    def request(self, name: str | None = None, *, ttl: float = 60, epoch: int | None = None) -> ClaimRequest:
        return claim_request(name or self.name, ttl=ttl, epoch=epoch)

    async def claim(self, *, ttl: float = 60) -> int:
        granted = await self.fleet.claim(NODE, self.request(ttl=ttl))
        self.epoch = granted.epoch
        return granted.epoch

    def entry(self, ordinal: int = 0, *, fails: bool = False, context: int = 256, **fields: Any) -> RunEntry:
        source = MISSING if fails else self.side.weights
        return run_entry(ordinal, source=source, node=NODE, context=context, **fields)

    def part(self, ordinal: int) -> RunEntry:
        """One of two parts: this node's leads, the other is nowhere."""
        alone = self.entry(ordinal)
        shards = (*alone.placement.shards, Shard(node="nowhere", gpus=()))
        id_ = replica_id(alone.model, ordinal, alone.digest, None, None, shards)
        placed = {"id": id_, "placement": Placement(id=id_, shards=shards)}
        met = {"addresses": ("127.0.0.1", "127.0.0.2"), "port": 18_000 + 16 * ((2 * os.getpid() + ordinal) % 125)}
        return alone.model_copy(update={**placed, **met})

    def assignment(self, *entries: Entry, generation: int | None = None, node: str = NODE) -> Assignment:
        if generation is None:
            generation = self.generation = self.generation + 1
        return Assignment(
            fleet="test", node=node, holder=self.name, epoch=self.epoch, generation=generation, entries=entries
        )

    async def send(self, *entries: Entry) -> int:
        return await self.fleet.assign(NODE, self.assignment(*entries))

    async def look(self) -> ReachableNode:
        return await self.fleet.observe(NODE, since=None, wait=AT_ONCE)

    async def until(self, id_: str, *states: ReplicaState | None) -> ObservedReplica | None:
        """Follow the node until this replica is in one of these states; None is gone."""
        seen = await self.look()
        with anyio.fail_after(WITHIN):
            while True:
                found = next((each for each in seen.replicas if each.id == id_), None)
                if (None if found is None else found.state) in states:
                    return found
                seen = await self.fleet.observe(NODE, since=seen.revision, wait=timedelta(seconds=1))

    async def ready(self, id_: str) -> ObservedReplica:
        found = await self.until(id_, ReplicaState.READY)
        assert found is not None
        return found

    async def failed(self, id_: str) -> ObservedReplica:
        found = await self.until(id_, ReplicaState.FAILED)
        assert found is not None
        return found


def at_once(entry: RunEntry, *, withdraw: float = 0, drain: float = 0) -> StopEntry:
    return StopEntry(id=entry.id, withdraw_delay=timedelta(seconds=withdraw), drain_timeout=timedelta(seconds=drain))


@asynccontextmanager
async def talking(side: Side, name: str) -> AsyncIterator[Talk]:
    """A conversation after which the node is as it was: nothing runs, nobody holds it."""
    talk = Talk(side, name)
    try:
        yield talk
    finally:
        with anyio.CancelScope(shield=True):
            await _clean_up(side, f"{name}-cleaner")
            await side.fleet.close()


async def _clean_up(side: Side, name: str) -> None:
    await side.start_agent()
    talk = Talk(side, name)
    for held in ("", "-2"):  # whoever may hold it gives it up
        await side.fleet.release(NODE, name.removesuffix("-cleaner") + held, (await talk.look()).epoch)
    await talk.claim()
    seen = await talk.look()
    if seen.replicas:
        talk.generation = seen.generation
        await talk.send(*(at_once(each.entry) for each in seen.replicas))
        for each in seen.replicas:
            await talk.until(each.id, None)
    await side.fleet.release(NODE, name, talk.epoch)


def real_config(state: Path) -> AgentConfig:
    return AgentConfig(
        node=NODE, listen=f"unix:{socket_path(state)}", state_dir=state, gpus=(), memory_gib=4, cpu_cores=4
    )


def start_real(state: Path) -> RealAgent:
    ensure_agent(state, real_config(state))
    return RealAgent(state, str(socket_path(state)))


def stop_real(state: Path) -> None:
    stop_agent(state, engines=True)
