"""The fenced right to change nodes: taken before the first assignment, renewed while working, given up at the end.

A reconciler changes things only while it holds claims on more than half of the nodes of the inventory (of a fleet of
one or two: on every node that answers, at least one), and no node that answers is held by another (design section 8).
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio

from reconciler.domain.assignment import ClaimRequest
from reconciler.errors import ClaimRefused, NodeUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from reconciler.domain.assignment import Holder
    from reconciler.fleet.protocol import Fleet

TTL = timedelta(seconds=30)
"""A reconciler that fell silent blocks the next one for at most this long; three missed renewals make it silent."""

RENEW_EVERY = timedelta(seconds=10)
SMALL_FLEET = 2
"""Up to here a majority would mean every node, and one lost node would block all repair."""


class Claims:
    """The epochs this process holds, by node."""

    def __init__(self, fleet: Fleet, fleet_name: str, holder: Holder) -> None:
        self._fleet = fleet
        self._fleet_name = fleet_name
        self.holder = holder
        self.epoch_by_node: dict[str, int] = {}
        self.trouble_by_node: dict[str, str] = {}
        """Why a node that should be claimed is not, in the words of the last try."""

    async def take(self, nodes: Iterable[str]) -> None:
        """Claim every node that is not held yet; silent nodes are left out. ClaimRefused when another holds one."""
        missing = [node for node in nodes if node not in self.epoch_by_node]
        refused: list[ClaimRefused] = []

        async def one(node: str) -> None:
            try:
                await self._claim(node)
            except NodeUnreachable as error:
                self.trouble_by_node[node] = error.message
            except ClaimRefused as error:
                refused.append(error)
            else:
                self.trouble_by_node.pop(node, None)

        async with anyio.create_task_group() as tasks:
            for node in missing:
                tasks.start_soon(one, node)
        if refused:
            await self.give_up()
            first = min(refused, key=lambda error: error.node)
            raise ClaimRefused(first.node, first.message, hint="wait for it to end, or stop it; then run this again")

    def forget(self, node: str) -> None:
        """Take a node's claim for lost; the next `take` asks for it again."""
        self.epoch_by_node.pop(node, None)

    def enough(self, nodes: int) -> bool:
        """Whether the claims held allow changing a fleet of so many nodes."""
        held = len(self.epoch_by_node)
        return held >= 1 if nodes <= SMALL_FLEET else held * 2 > nodes

    def lacking(self, nodes: Sequence[str]) -> str:
        """Why the claims held are not enough, for a person."""
        silent = [node for node in nodes if node not in self.epoch_by_node]
        needed = 1 if len(nodes) <= SMALL_FLEET else len(nodes) // 2 + 1
        told = ", ".join(silent[:3]) + (f" and {len(silent) - 3} more" if len(silent) > 3 else "")  # noqa: PLR2004  # a line
        return (
            f"{len(self.epoch_by_node)} of {len(nodes)} nodes claimed and {needed} needed to act; not claimed: {told}"
        )

    async def renew_for_ever(self) -> None:
        """Renew every claim; a node that no longer knows ours loses it here, and is claimed again when seen."""
        while True:
            await anyio.sleep(RENEW_EVERY.total_seconds())
            async with anyio.create_task_group() as tasks:  # at once: a few silent nodes must not let the others lapse
                for node in tuple(self.epoch_by_node):
                    tasks.start_soon(self._renew, node)

    async def _renew(self, node: str) -> None:
        try:
            await self._claim(node)
        except (ClaimRefused, NodeUnreachable):
            self.forget(node)

    async def give_up(self) -> None:
        """Release every claim, so that the next reconciler need not wait."""
        for node, epoch in tuple(self.epoch_by_node.items()):
            await self._fleet.release(node, self.holder.id, epoch)
        self.epoch_by_node.clear()

    async def _claim(self, node: str) -> None:
        request = ClaimRequest(
            fleet=self._fleet_name,
            holder=self.holder,
            ttl_seconds=TTL.total_seconds(),
            epoch=self.epoch_by_node.get(node),
        )
        granted = await self._fleet.claim(node, request)
        self.epoch_by_node[node] = granted.epoch


@asynccontextmanager
async def claiming(claims: Claims) -> AsyncIterator[Claims]:
    """Keep claims renewed inside the block and release them after it, however it ends."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(claims.renew_for_ever, name="renew claims")
        try:
            yield claims
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True), anyio.move_on_after(2):  # a dead agent must not hold up the exit
                await claims.give_up()
