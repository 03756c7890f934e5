"""The seam to the nodes: four questions to one node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import timedelta

    from reconciler.domain.assignment import Assignment, ClaimGranted, ClaimRequest
    from reconciler.domain.observed import ReachableNode


class Fleet(Protocol):
    """The nodes of one fleet. Every call is about one node and safe to repeat."""

    async def observe(self, node: str, *, since: int | None, wait: timedelta) -> ReachableNode:
        """What the node says, at once or when its revision has moved past `since`, at the latest after `wait`.

        NodeUnreachable when it does not answer; its `refused` says whether the connection was refused at once.
        """
        ...

    async def claim(self, node: str, request: ClaimRequest) -> ClaimGranted:
        """Take or renew the claim; ClaimRefused names the other holder, NodeUnreachable when it does not answer."""
        ...

    async def release(self, node: str, holder: str, epoch: int) -> None:
        """Give the claim up; silent when the node does not answer, since the claim then lapses by itself."""
        ...

    async def assign(self, node: str, assignment: Assignment) -> int:
        """Send the whole assignment; the revision at which the node holds it.

        AssignmentRefused with the agent's reason, NodeUnreachable when it does not answer: it may have taken it.
        """
        ...


class Reached(Fleet, Protocol):
    """A fleet with what was opened to reach it."""

    async def close(self) -> None:
        """Close every connection."""
        ...
