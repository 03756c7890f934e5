"""All nodes watched at once: one long poll per node, the newest answer of each kept with its age.

A node that does not answer becomes `UnreachableNode` and keeps what it last said: unknown is not gone.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import anyio

from reconciler.domain.observed import Observation, ReachableNode, UnreachableNode
from reconciler.errors import NodeUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from reconciler.domain.observed import NodeObservation
    from reconciler.fleet.protocol import Fleet

REFUSED_BEFORE_UNREACHABLE = 2
"""One refused connection may be an agent that is just restarting; a second one in a row is not (design section 8)."""

RETRY_AFTER = timedelta(seconds=1)
"""Between two tries to reach a silent node: soon enough for a person who waits, cheap at a thousand nodes."""


@dataclass(slots=True)
class _Heard:
    node: NodeObservation
    at: float
    """On the monotonic clock, when it was received, or first missed."""


class Observer:
    """Keeps the newest observation of every node; use as `async with observing(...) as observer`."""

    def __init__(
        self,
        fleet: Fleet,
        nodes: Iterable[str],
        wait: timedelta,
        known: dict[str, ReachableNode] | None = None,
        heard_at: dict[str, datetime] | None = None,
    ) -> None:
        """`known` is what nodes said to an earlier observer of this process; it is kept up to date here.

        `heard_at` says when each was last heard, by whomever, on the wall clock; it is kept up to date too.
        """
        self._fleet = fleet
        self._names = tuple(sorted(nodes))
        self._known = {} if known is None else known
        self._heard_at = {} if heard_at is None else heard_at
        self._heard: dict[str, _Heard] = {}
        self._changed = anyio.Event()
        self._version = 0
        self._version_read = 0
        self.wait = wait
        """How long a node may hold its answer back while nothing changes: gauges are at most this old."""

    def latest(self) -> Observation:
        """What every node last said, with ages as of now; nodes that were never heard are unreachable."""
        now = anyio.current_time()
        self._version_read = self._version
        return Observation(nodes=tuple(self._latest(name, now) for name in self._names))

    async def hear_all(self, within: timedelta) -> Observation:
        """Wait until every node has answered or is known not to, at the longest for `within`."""
        with anyio.move_on_after(within.total_seconds()):
            while len(self._heard) < len(self._names):
                await self._changed.wait()
        return self.latest()

    async def changed(self, within: timedelta) -> bool:
        """Wait until some node has said something since `latest`, at the longest for `within`; whether one did."""
        with anyio.move_on_after(max(within.total_seconds(), 0.0)):
            while self._version == self._version_read:
                await self._changed.wait()
        return self._version != self._version_read

    async def reached(self, node: str, revision: int, within: timedelta) -> None:
        """Wait until an observation of this node at or past `revision` is here, so that no pass plans on older news."""
        with anyio.move_on_after(within.total_seconds()):
            while not self._is_past(node, revision):
                await self._changed.wait()

    async def follow(self, name: str) -> None:
        """Long-poll one node for ever."""
        since: int | None = None
        refused = 0
        while True:
            try:
                node = await self._fleet.observe(name, since=since, wait=self.wait)
            except NodeUnreachable as error:
                refused += 1
                if not error.refused or refused >= REFUSED_BEFORE_UNREACHABLE:
                    self._missed(name, _without_subject(error.message, name))
                since = None
                await anyio.sleep(RETRY_AFTER.total_seconds())
                continue
            refused = 0
            since = node.revision
            self._hear(name, node)

    def _is_past(self, name: str, revision: int) -> bool:
        heard = self._heard.get(name)
        return heard is not None and isinstance(heard.node, ReachableNode) and heard.node.revision >= revision

    def _latest(self, name: str, now: float) -> NodeObservation:
        heard = self._heard.get(name)
        if heard is None:
            last, since = self._known.get(name), self._heard_at.get(name)
            return UnreachableNode(name=name, reason="has not answered yet", since=since, last=last)
        ago = timedelta(seconds=now - heard.at)
        if isinstance(heard.node, ReachableNode):
            return aged(heard.node, ago)
        return heard.node if heard.node.last is None else heard.node.model_copy(update={"silent_for": ago})

    def _hear(self, name: str, node: ReachableNode) -> None:
        self._heard[name] = _Heard(node, anyio.current_time())
        self._known[name] = node
        if node.agent:
            self._heard_at[name] = datetime.now(UTC)  # noqa: TID251  # shell
        self._tell()

    def _missed(self, name: str, reason: str) -> None:
        before = self._heard.get(name)
        last = before.node if before else self._known.get(name)
        at = anyio.current_time()
        if isinstance(last, UnreachableNode):
            node = last.model_copy(update={"reason": reason})
            at = before.at if before else at
        else:
            node = UnreachableNode(name=name, reason=reason, since=self._heard_at.get(name), last=last)
        self._heard[name] = _Heard(node, at)
        self._tell()

    def _tell(self) -> None:
        self._version += 1
        event, self._changed = self._changed, anyio.Event()
        event.set()


@asynccontextmanager
async def observing(
    fleet: Fleet,
    nodes: Iterable[str],
    wait: timedelta,
    known: dict[str, ReachableNode] | None = None,
    heard_at: dict[str, datetime] | None = None,
) -> AsyncIterator[Observer]:
    """Follow all nodes for as long as the block runs; `known` and `heard_at` as `Observer` takes them."""
    observer = Observer(fleet, nodes, wait, known, heard_at)
    names = tuple(observer._names)  # noqa: SLF001  # one module
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(observer.follow, name, name=f"follow {name}")
        yield observer
        tasks.cancel_scope.cancel()


def _without_subject(message: str, name: str) -> str:
    """The message without the node's name in front: whoever tells it names the node."""
    for subject in (f"{name}: ", f"{name} "):
        message = message.removeprefix(subject)
    return message


def aged(node: ReachableNode, by: timedelta) -> ReachableNode:
    """The same observation, `by` later: replicas have been in their state for that much longer."""
    replicas = tuple(each.model_copy(update={"state_for": each.state_for + by}) for each in node.replicas)
    failed = node.failed_starts
    if failed is not None:
        failed = failed.model_copy(update={"last_for": failed.last_for + by})
    return node.model_copy(update={"replicas": replicas, "failed_starts": failed})
