"""A fleet of simulated nodes in virtual time, and the network between them and a reconciler.

`SimulatedNodes` is the world: it goes on whether or not anybody asks. `SimulatedFleet` is a `Fleet` that reaches it
through one reconciler's network, in which requests and answers can be lost, late or refused. Time is the event loop's
(`anyio.current_time`): on a `VirtualLoop` hours pass in a second.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, TypeVar

import anyio

from reconciler.domain.assignment import Refusal
from reconciler.errors import AssignmentRefused, ClaimRefused, NodeUnreachable
from reconciler.fleet.simulated_engine import Course

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.domain.assignment import Assignment, ClaimGranted, ClaimRequest, RunEntry
    from reconciler.domain.observed import ReachableNode
    from reconciler.fleet.simulated_engine import EngineProcess
    from reconciler.fleet.simulated_node import SimulatedNode
    from reconciler.fleet.simulated_replica import SimulatedReplica

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
"""As the real client waits: see CONNECT_TIMEOUT and ANSWER_MARGIN of `fleet.http`."""

T = TypeVar("T")


class Link(StrEnum):
    """What the network does between one reconciler and one node."""

    UP = "up"
    LOST = "lost"
    """No request arrives."""
    DEAF = "deaf"
    """Requests arrive and take effect; no answer comes back."""


@dataclass(slots=True)
class SimulatedNodes:
    """All nodes, the courses that launches take, and what is still on its way to a node."""

    course_of: Callable[[RunEntry, str], Course] = lambda _entry, _node: Course()
    """How the next launch of an entry on a node goes."""
    on_change: Callable[[float, str, SimulatedReplica], None] = lambda _at, _node, _replica: None
    """Told of every transition of a replica, and when one is gone."""
    by_name: dict[str, SimulatedNode] = field(default_factory=dict)
    now: float = 0.0
    _posted: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _change: anyio.Event = field(default_factory=anyio.Event)

    def add(self, node: SimulatedNode) -> None:
        """Put a node into the world."""
        self.by_name[node.name] = node

    def course(self, entry: RunEntry, node: str) -> Course:
        """See `simulated_seams.Surroundings`."""
        return self.course_of(entry, node)

    def parts(self, entry: RunEntry, node: str) -> tuple[EngineProcess | None, ...]:
        """See `simulated_seams.Surroundings`."""
        others = (self.by_name.get(name) for name in entry.placement.nodes if name != node)
        held = (None if other is None else other.replicas.get(entry.id) for other in others)
        return tuple(None if replica is None else replica.process for replica in held)

    def changed(self, node: str, replica: SimulatedReplica, at: float) -> None:
        """See `simulated_seams.Surroundings`."""
        self.on_change(at, node, replica)
        self.wake()

    def wake(self) -> None:
        """Whoever waits for something to happen looks again."""
        event, self._change = self._change, anyio.Event()
        event.set()

    def post(self, at: float, act: Callable[[], None]) -> None:
        """Something happens at a later instant, whoever waits for it or not."""
        self._posted.append((at, act))
        self.wake()

    def advance(self, now: float) -> None:
        """Let everything happen that was due up to this instant, in the order in which it was due."""
        while (due := self.due_at()) <= now:
            self.now = due
            acts = [act for at, act in self._posted if at <= due]
            self._posted = [each for each in self._posted if each[0] > due]
            for act in acts:
                act()
            self._step()
        self.now = now
        self._step()

    def due_at(self) -> float:
        """The next instant at which something happens by itself."""
        instants = [node.due_at(self.now) for node in self.by_name.values()] + [at for at, _ in self._posted]
        return min(instants, default=inf)

    async def keep_time(self) -> None:
        """Let the world go on by itself, for ever; without it things happen when somebody next asks, dated as due."""
        while True:
            self.advance(anyio.current_time())
            await self.wait(inf)

    async def wait(self, until: float) -> None:
        """Return at this instant, or earlier when something has happened or is due."""
        event, now = self._change, anyio.current_time()
        with anyio.move_on_after(max(min(until, self.due_at()) - now, 0.0)):
            await event.wait()

    def _step(self) -> None:
        before = -1
        while before != (before := sum(node.revision for node in self.by_name.values())):
            for node in self.by_name.values():
                node.advance(self.now)


@dataclass(slots=True)
class SimulatedFleet:
    """`Fleet` over simulated nodes, as one reconciler reaches them."""

    nodes: SimulatedNodes
    links: dict[str, Link] = field(default_factory=dict)
    """By node; up where none is named."""
    late: dict[str, float] = field(default_factory=dict)
    """By node, seconds by which the next assignment arrives late: perhaps when nobody waits for an answer any more."""
    is_cut: bool = False
    """Whether its reconciler is gone: nothing that it asks happens any more."""

    async def observe(self, node: str, *, since: int | None, wait: timedelta) -> ReachableNode:
        """See `Fleet.observe`."""
        asked = await self._reach(node)
        starts, until = asked.agent_starts, self.nodes.now + wait.total_seconds()
        while since is not None and asked.revision == since and self.nodes.now < until:
            await self._pass_time(until)
            _still_there(asked, starts)
        await self._answered(asked, starts, until + ANSWER_SECONDS)
        return asked.observe(self.nodes.now)

    async def claim(self, node: str, request: ClaimRequest) -> ClaimGranted:
        """See `Fleet.claim`."""
        answer = await self._change(node, lambda asked: asked.claim(request, self.nodes.now))
        if isinstance(answer, Refusal):
            raise ClaimRefused(node, f"{node}: {answer.message}")
        return answer

    async def release(self, node: str, holder: str, epoch: int) -> None:
        """See `Fleet.release`."""
        with suppress(NodeUnreachable):
            await self._change(node, lambda asked: asked.release(holder, epoch))

    async def assign(self, node: str, assignment: Assignment) -> int:
        """See `Fleet.assign`."""
        late = self.late.pop(node, 0.0)
        answer = await self._change(node, lambda asked: asked.assign(assignment, self.nodes.now), late)
        if isinstance(answer, Refusal):
            raise AssignmentRefused(node, f"{node}: {answer.message}")
        return answer

    async def close(self) -> None:
        """Nothing is open."""

    async def _change(self, node: str, act: Callable[[SimulatedNode], T], late: float = 0.0) -> T:
        """Ask a node for something that changes it; the answer, unless request or answer are lost on their way."""
        asked = await self._reach(node)
        starts, until = asked.agent_starts, self.nodes.now + ANSWER_SECONDS
        answers: list[T] = []
        if late:
            self.nodes.post(self.nodes.now + late, lambda: answers.append(act(asked)) if asked.answers else None)
        else:
            answers.append(act(asked))
            self.nodes.wake()
        while not answers and self.nodes.now < until:
            await self._pass_time(until)
        await self._answered(asked, starts, until if answers else self.nodes.now)
        if not answers:
            raise NodeUnreachable(node, f"{node} did not answer (ReadTimeout)")
        return answers[0]

    async def _reach(self, node: str) -> SimulatedNode:
        """The node, once a request has arrived there; NodeUnreachable when none does."""
        if self.is_cut:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        self.nodes.advance(anyio.current_time())
        asked = self.nodes.by_name.get(node)
        if asked is None:
            raise NodeUnreachable(node, f"{node} is not in the inventory")
        if not asked.is_up or self.links.get(node, Link.UP) is Link.LOST:
            await anyio.sleep(CONNECT_SECONDS)
            raise NodeUnreachable(node, f"{node} did not answer (ConnectTimeout)")
        if not asked.has_agent:
            raise NodeUnreachable(node, f"{node} refused the connection", refused=True)
        return asked

    async def _answered(self, asked: SimulatedNode, starts: int, until: float) -> None:
        """Return when the answer is here: what is sent again and again arrives once the network is mended."""
        while not asked.is_up or self.links.get(asked.name, Link.UP) is not Link.UP:
            if self.nodes.now >= until:
                raise NodeUnreachable(asked.name, f"{asked.name} did not answer (ReadTimeout)")
            await self._pass_time(until)
            _still_there(asked, starts)

    async def _pass_time(self, until: float) -> None:
        await self.nodes.wait(until)
        self.nodes.advance(anyio.current_time())


def _still_there(asked: SimulatedNode, starts: int) -> None:
    """An agent that ends, or has come back meanwhile, has dropped whoever waited for it."""
    if asked.is_up and (not asked.has_agent or asked.agent_starts != starts):
        raise NodeUnreachable(asked.name, f"{asked.name} did not answer (ReadError)")
