"""Pools that grow together, and slots for states beside them: how SGLang 0.5.23 divides its cache memory.

From `model_executor/pool_configurator.py` (HybridSWAPoolConfigurator) and `mem_cache/kv_cache_configurator.py`
(_handle_max_mamba_cache).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.sizing.kv_layers import Held, bytes_on_fullest
from reconciler.sizing.kv_plan import ANY_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.sizing.kv_layers import LayerCache

WINDOW_RATIO = 0.8
"""SGLang's --swa-full-tokens-ratio."""
COMPRESSED_RATIO = 0.1
"""The same for DeepSeek-V4."""
STATE_RATIO = 0.9
"""SGLang's --mamba-full-memory-ratio: states to the rest."""
STATE_SLOTS = 3
"""State slots of one request in SGLang with a radix cache and no extra buffer (kv_cache_configurator.py)."""
POOLED = frozenset({
    "Llama4ForConditionalGeneration", "DeepseekV4ForCausalLM", "GptOssForCausalLM", "GraniteSWAForCausalLM",
    "GraniteMoeSWAForCausalLM", "MiMoV2ForCausalLM", "MiMoV2FlashForCausalLM", "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "EmbeddingGemma2Model",
    "LagunaForCausalLM", "MellumForCausalLM", "InklingForConditionalGeneration",
})  # fmt: skip
"""Architectures whose windows SGLang 0.5.23 gives a pool (model_config.py, is_hybrid_swa_model); others cache all."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool beside others: `weight` of its tokens to each token of the whole."""

    token_bytes: int
    weight: float
    span: int | None = None
    """Tokens of the window its layers look back; None where they look at everything."""


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Pools whose sizes keep their proportions, beside slots for states (SGLang).

    A static share `state_share` of the memory becomes slots of `slot_bytes`; the rest is divided over the pools.
    """

    pools: tuple[Pool, ...]
    page: int
    """Tokens that are allocated at once."""
    in_flight: int
    """Tokens of a chunk that a window holds until it is evicted."""
    slot_bytes: int = 0
    state_share: float = 0.0
    slots: int = 0
    """Slots that one request takes."""
    reserved_bytes: int = 0

    @property
    def cell(self) -> float:
        """Bytes of one token over all pools."""
        return sum(pool.token_bytes * pool.weight for pool in self.pools)

    def request_bytes(self, tokens: int) -> int:
        """Bytes that pools and slots must have for one request: the scarcest decides. It may use all tokens but one."""
        needed = max((self._needed(pool, tokens) for pool in self.pools), default=0)
        grown = -(-needed // self.page) * self.page * self.cell
        for_tokens = int(grown / (1 - self.state_share)) + 1 if grown else 0
        for_slots = int((self.slots + 2) * self.slot_bytes / self.state_share) + 1 if self.slot_bytes else 0
        return max(for_tokens, for_slots)

    def unpadded_bytes(self, tokens: int) -> int:
        """The same: pools have no groups."""
        return self.request_bytes(tokens)

    def tokens_in(self, pool_bytes: int) -> int:
        """Tokens that the engine prints (max_total_num_tokens): of the pool that looks at everything."""
        if not self.cell:
            return 0
        rest = pool_bytes - self._state_bytes(pool_bytes)
        return max(0, int(rest // self.cell)) // self.page * self.page

    def longest(self, pool_bytes: int) -> int:
        """Tokens of the longest single request; SGLang cuts longer ones without a word."""
        if self.request_bytes(1) > pool_bytes:
            return 0
        if self.request_bytes(ANY_LENGTH) <= pool_bytes:
            return ANY_LENGTH
        most = int(pool_bytes / self.cell) + self.page
        return bisect_right(range(1, most + 1), pool_bytes, key=self.request_bytes)

    def concurrency(self, pool_bytes: int, tokens: int) -> float:
        """Requests of this length at once: by the scarcest pool, or by slots."""
        limits = [
            self.tokens_in(pool_bytes) * pool.weight / (-(-self._held(pool, tokens) // self.page) * self.page)
            for pool in self.pools
        ]
        if self.slot_bytes:
            limits.append(self._slots_in(pool_bytes) / self.slots)
        return min(limits, default=0.0)

    def _held(self, pool: Pool, tokens: int) -> int:
        """Tokens that one request holds in this pool."""
        return tokens if pool.span is None else min(tokens, pool.span + self.in_flight + self.page)

    def _needed(self, pool: Pool, tokens: int) -> int:
        """Tokens of the whole that this pool demands; a pool of windows has to hold more than one of them."""
        held = self._held(pool, tokens) + 1
        if pool.span is not None and len(self.pools) > 1:
            held = max(held, pool.span + self.page + 1)
        return int(-(-held // pool.weight))

    def _slots_in(self, pool_bytes: int) -> int:
        """State slots; one more is padding."""
        return max(0, int((pool_bytes * self.state_share - self.slot_bytes) // self.slot_bytes))

    def _state_bytes(self, pool_bytes: int) -> int:
        return (self._slots_in(pool_bytes) + 1) * self.slot_bytes if self.slot_bytes else 0


def pool_plan(
    caches: Mapping[LayerCache, tuple[int, ...]], by_stage: Sequence[range], page: int, batch: int
) -> PoolPlan:
    """SGLang: a pool for growing layers, one for windows in a fixed proportion to it, and slots for states."""
    whole = bytes_on_fullest(by_stage, caches, Held.EVERYTHING)
    ratio = COMPRESSED_RATIO if any(cache.tokens_per_entry > 1 for cache in caches) else WINDOW_RATIO
    pools = [Pool(whole, 1.0)] if whole else []
    spans = [cache.span for cache in caches if cache.held in (Held.WINDOW, Held.CHUNK)]
    if spans:
        windows = sum(bytes_on_fullest(by_stage, caches, held) for held in (Held.WINDOW, Held.CHUNK))
        pools.append(Pool(windows, ratio if whole else 1.0, max(spans)))
    state = bytes_on_fullest(by_stage, caches, Held.STATE)
    return PoolPlan(
        pools=tuple(pools),
        page=page,
        in_flight=batch,
        slot_bytes=state,
        state_share=STATE_RATIO / (1 + STATE_RATIO) if state else 0.0,
        slots=STATE_SLOTS,
    )
