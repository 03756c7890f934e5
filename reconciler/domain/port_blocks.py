"""Ports of replicas over several nodes: a block of 16 each, with the same numbers on every node of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from reconciler.domain.base import Frozen, Positive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

PORT_BLOCK = 16
"""The most that an engine takes on one node: SGLang's, with room behind it (`engines.base.Port`)."""


class PortRange(Frozen):
    """From which the blocks of one node are taken, both ends included."""

    first: Positive = 18_000
    """Right below the ports of replicas of one node, and so below Linux's range for outgoing connections."""
    last: Positive = Field(default=19_999, le=65_535)
    """125 blocks: a node runs fewer replicas than it has GPUs."""

    @model_validator(mode="after")
    def _holds_a_block(self) -> Self:
        if self.last - self.first + 1 < PORT_BLOCK:
            raise ValueError(f"expected room for a block of {PORT_BLOCK} ports between {self.first} and {self.last}")
        return self

    def holds(self, port: int) -> bool:
        """Whether a block that begins there lies in it."""
        return self.first <= port and port + PORT_BLOCK - 1 <= self.last


def free_block(ranges: Iterable[PortRange], taken: Collection[int], start: int) -> int | None:
    """First port of a block that lies in every range and overlaps none of the `taken` blocks; None without one.

    The search begins at a place that follows from `start`, so that blocks of fleets that know nothing of each other
    are seldom the same.
    """
    known = tuple(ranges)
    first, last = max(each.first for each in known), min(each.last for each in known)
    count = (last - first + 1) // PORT_BLOCK
    blocks = (first + PORT_BLOCK * ((start + step) % count) for step in range(count))
    return next((port for port in blocks if all(abs(port - other) >= PORT_BLOCK for other in taken)), None)
