"""What one pool of blocks holds (vLLM, TensorRT-LLM), on the fullest GPU."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.sizing.kv_blocks import blocks_of
from reconciler.sizing.kv_layers import Held

if TYPE_CHECKING:
    from reconciler.sizing.kv_blocks import Group, Paged

ANY_LENGTH = 2**40
"""Tokens of a request that no cache limits: windows and states alone do not grow."""


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """One pool of blocks of `block_bytes`, from which every group takes its own."""

    groups: tuple[Group, ...]
    block_bytes: int
    """Of one block on the stage that holds most."""
    in_flight: int
    """Tokens scheduled and not settled, which windows keep."""
    source: int
    """Tokens of an encoder that a request may bring."""
    context: int | None
    """Tokens that one request may use."""
    by_request: bool
    """Whether the size is printed as full-length requests x length."""
    ranks: int = 1
    """Ranks that share the cache of one request (decode context parallel)."""
    kept_back: int = 1
    """Blocks that no request gets: vLLM's null block."""
    extra: int = 0
    """Tokens that a request takes beyond its length."""
    beside: int = 0
    """Bytes that a request takes beside its blocks."""
    apart: tuple[Paged, ...] = ()
    """Every kind of layer as it would be without groups, on the stage that holds most."""

    @property
    def reserved_bytes(self) -> int:
        """Of the pool, what no request gets."""
        return self.kept_back * self.block_bytes

    def blocks(self, tokens: int) -> int:
        """Blocks of one request of this length, over all groups."""
        return sum(self._taken(group.parts[0], tokens) for group in self.groups)

    def _taken(self, part: Paged, tokens: int) -> int:
        tokens += self.extra
        length = -(-tokens // self.ranks) if part.cache.held is Held.EVERYTHING else tokens
        return blocks_of(part.cache, part.block, length, self.in_flight, self.source)

    def request_bytes(self, tokens: int) -> int:
        """Bytes of one request of this length."""
        return self.blocks(tokens) * self.block_bytes + self.beside

    def unpadded_bytes(self, tokens: int) -> int:
        """The same if groups were not filled up to equal numbers of layers: what vLLM sums over layers."""
        return self.beside + sum(self._taken(each, tokens) * each.page * len(each.layers) for each in self.apart)

    def tokens_in(self, pool_bytes: int) -> int:
        """Tokens that the engine prints as its cache size."""
        blocks = self._blocks_in(pool_bytes)
        if self.by_request and self.context:
            return int(blocks / self.blocks(self.context) * self.context)
        smallest = min(
            (group.parts[0].block for group in self.groups if group.parts[0].cache.held is not Held.STATE), default=0
        )
        return blocks // max(1, len(self.groups)) * smallest * self.ranks

    def longest(self, pool_bytes: int) -> int:
        """Tokens of the longest single request."""
        blocks = self._blocks_in(pool_bytes - self.beside) - self.kept_back
        if self.blocks(1) > blocks or pool_bytes < self.beside:
            return 0
        growing = [group.parts[0].block for group in self.groups if group.parts[0].cache.held is Held.EVERYTHING]
        if not growing and self.blocks(ANY_LENGTH) <= blocks:
            return ANY_LENGTH
        most = min(blocks * max(group.parts[0].block for group in self.groups) * self.ranks, ANY_LENGTH)
        return bisect_right(range(1, most + 1), blocks, key=self.blocks)

    def concurrency(self, pool_bytes: int, tokens: int) -> float:
        """Requests of this length at once; the null block counts, as in vLLM's own figure."""
        if self.beside:
            return max(0, pool_bytes) / self.request_bytes(tokens)
        return self._blocks_in(pool_bytes) / max(1, self.blocks(tokens))

    def _blocks_in(self, pool_bytes: int) -> int:
        return max(0, pool_bytes) // self.block_bytes
