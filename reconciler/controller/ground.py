"""Where the nodes of a fleet are reached from this machine: endpoints by address, and the agent on this very machine.

`address: local` is the ordinary agent on a Unix socket below the state directory.
Looking never starts it: without one, its journal and the process table are read instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from reconciler.agent.config import AgentConfig
from reconciler.agent.local import ensure_agent, offline_observation, socket_path
from reconciler.domain.fleet_spec import LOCAL
from reconciler.domain.loopback import is_loopback
from reconciler.errors import NodeUnreachable
from reconciler.fleet.http import Endpoint, HttpFleet

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from reconciler.domain.assignment import Assignment, ClaimGranted, ClaimRequest
    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.observed import ReachableNode
    from reconciler.fleet.protocol import Reached


@dataclass(frozen=True, slots=True)
class Ground:
    """One fleet as reached from here."""

    fleet: Reached
    inventory: tuple[str, ...]
    """Names of all nodes."""
    state: Path | None = None
    """Where it is kept when nodes were last heard; None keeps nothing."""


class GroundFleet:
    """`Fleet` over HTTP that also knows the node of this machine.

    With `may_start` it starts the local agent when a claim finds none; without, it only reads what the agent left.
    """

    def __init__(self, http: HttpFleet, *, local: AgentConfig | None, state: Path, may_start: bool) -> None:
        self._http = http
        self._local = local
        self._state = state
        self._may_start = may_start

    async def observe(self, node: str, *, since: int | None, wait: timedelta) -> ReachableNode:
        """See `Fleet.observe`."""
        try:
            return await self._http.observe(node, since=since, wait=wait)
        except NodeUnreachable as error:
            if not error.refused or self._local is None or node != self._local.node:
                raise
            seen = await anyio.to_thread.run_sync(offline_observation, self._state, self._local)
            if since == seen.revision:
                await anyio.sleep(wait.total_seconds())
            return seen

    async def claim(self, node: str, request: ClaimRequest) -> ClaimGranted:
        """See `Fleet.claim`."""
        if self._may_start and self._local is not None and node == self._local.node:
            await anyio.to_thread.run_sync(ensure_agent, self._state, self._local)
        return await self._http.claim(node, request)

    async def release(self, node: str, holder: str, epoch: int) -> None:
        """See `Fleet.release`."""
        await self._http.release(node, holder, epoch)

    async def assign(self, node: str, assignment: Assignment) -> int:
        """See `Fleet.assign`."""
        return await self._http.assign(node, assignment)

    async def close(self) -> None:
        """Close every connection."""
        await self._http.close()


def ground(desired: Desired, state: Path, *, may_start: bool) -> Ground:
    """How to reach every node of this inventory."""
    endpoints = {node.name: _endpoint(node, state) for node in desired.nodes}
    local = next((_agent_config(node, state) for node in desired.nodes if node.address == LOCAL), None)
    fleet = GroundFleet(HttpFleet(endpoints), local=local, state=state, may_start=may_start)
    return Ground(fleet, tuple(node.name for node in desired.nodes), state)


def _endpoint(node: Node, state: Path) -> Endpoint:
    address = node.address
    if address is None:
        return Endpoint(problem=f"{node.name} has no address in {node.where.file}")
    if address == LOCAL:
        return Endpoint(socket=str(socket_path(state)))
    if address.startswith("unix:"):
        return Endpoint(socket=address.removeprefix("unix:"))
    if address.startswith("http://") and not is_loopback(urlsplit(address).hostname):
        return Endpoint(problem=f"{node.name}: plain http is for loopback only, and {address} is not; use https")
    return Endpoint(url=address)


def _agent_config(node: Node, state: Path) -> AgentConfig:
    return AgentConfig(
        node=node.name,
        listen=f"unix:{socket_path(state)}",
        state_dir=state,
        gpus=node.gpu_class_by_index(),
        memory_gib=node.memory_gib,
        cpu_cores=node.cpu_cores,
    )
