"""The KV cache of one GPU: bytes a token, a request and a state take, and what a pool of a given size holds.

Exact where an engine's own rules were read: vLLM 0.32 (`v1/core/kv_cache_utils.py`), SGLang 0.5.23
(`model_executor/pool_configurator.py`), TensorRT-LLM (`_torch/pyexecutor/resource_manager.py`). Figures are of the
fullest GPU: pipeline stages hold whole layers, and the poorest rank decides for all. llama.cpp has rules of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine, Task
from reconciler.sizing.counting import Windows
from reconciler.sizing.kv_blocks import lay_out, raised_block, ungrouped, without_windows
from reconciler.sizing.kv_dtypes import cache_type, spared_layers
from reconciler.sizing.kv_layers import COMPRESSED_BLOCK, Held, bytes_on_fullest, layer_caches
from reconciler.sizing.kv_plan import BlockPlan
from reconciler.sizing.kv_pools import POOLED, PoolPlan, pool_plan
from reconciler.sizing.stages import stage_layers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.shape import Shape
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.kv_blocks import Paged
    from reconciler.sizing.kv_dtypes import CacheType
    from reconciler.sizing.kv_layers import LayerCache
    from reconciler.sizing.memory_ask import MemoryAsk

    Caches = Mapping[LayerCache, tuple[int, ...]]

BATCH_TOKENS = 2048
"""Tokens of one batch where nobody says: vLLM's default on small cards and A100, SGLang's smallest chunk."""
_BOUNDED = (Held.WINDOW, Held.CHUNK, Held.SOURCE)
"""What depends on the size of a batch."""
LATENT_BLOCK = 64
"""Block of quantized and sparse latent caches: FlashMLA's kernels take no other (vLLM, `v1/attention/backends/mla`)."""


@dataclass(frozen=True, slots=True)
class KvCache:
    """The cache of the fullest GPU."""

    bytes_per_token: int
    """Of layers whose cache grows with every token."""
    state_bytes: int
    """Of recurrent layers for one sequence, one state each."""
    block_tokens: int
    """Tokens of one block (page), after the engine raised it for states; pages made equal may hold more."""
    doubts: tuple[str, ...]
    plan: BlockPlan | PoolPlan

    @property
    def reserved_bytes(self) -> int:
        """Bytes of the pool that no request gets: vLLM's null block."""
        return self.plan.reserved_bytes

    def request_bytes(self, tokens: int) -> int:
        """What one request of this length takes: whole blocks, windows as allocated, states."""
        return self.plan.request_bytes(tokens)

    def unpadded_bytes(self, tokens: int) -> int:
        """The same without the layers that fill up vLLM's groups: the sum over the model's own layers."""
        return self.plan.unpadded_bytes(tokens)

    def tokens_in(self, pool_bytes: int) -> int:
        """Tokens that the engine prints as its cache size."""
        return self.plan.tokens_in(pool_bytes)

    def longest(self, pool_bytes: int) -> int:
        """Tokens of the longest single request; 0 where none fits, ANY_LENGTH where length does not matter."""
        return self.plan.longest(pool_bytes)

    def concurrency(self, pool_bytes: int, tokens: int) -> float:
        """Requests of this length at once."""
        return self.plan.concurrency(pool_bytes, tokens)


def kv_cache(shape: Shape, ask: MemoryAsk, rules: CountingRules) -> KvCache | None:
    """The cache of one GPU as this engine version lays it out; None where nothing is cached (encoders).

    Without `ask.batch_tokens` windows are counted with batches of 2,048 tokens, and a doubt says so.
    """
    if shape.encoder:
        return None
    kind = cache_type(shape, ask, rules)
    caches = _windows_kept(layer_caches(shape, ask, rules, kind), shape, ask, rules)
    if not caches:
        return None
    doubts: list[str] = []
    if ask.batch_tokens is None and any(cache.held in _BOUNDED for cache in caches):
        doubts.append(f"windows are counted with batches of {BATCH_TOKENS:,} tokens: the batch size is not known")
    by_stage = stage_layers(len(shape.layers), ask.pipeline, rules.engine)
    block = _block_tokens(ask, rules, kind, caches)
    plan: BlockPlan | PoolPlan
    if rules.engine is Engine.SGLANG:
        plan = pool_plan(caches, by_stage, block, ask.batch_tokens or BATCH_TOKENS)
        if any(cache.tokens_per_entry > 1 for cache in caches):
            doubts.append("SGLang sizes DeepSeek-V4's compressed caches by rules of its own, counted here roughly")
    else:
        plan, certain = _block_plan(ask, rules, caches, by_stage, block)
        if not certain:
            doubts.append("pages of unlike size could not be laid out: each kind of layer is counted by itself")
    growing, states = (bytes_on_fullest(by_stage, caches, held) for held in (Held.EVERYTHING, Held.STATE))
    return KvCache(-(-growing // _sharing(ask, rules)), states, block, tuple(doubts), plan)


def _windows_kept(caches: Caches, shape: Shape, ask: MemoryAsk, rules: CountingRules) -> Caches:
    """Windows as this engine caches them: some cache everything all the same.

    TensorRT-LLM gives windows pools only where its configuration lists them (max_attention_window); without, as here,
    every layer has the whole length.
    """
    match rules.engine, rules.windows:
        case (Engine.TRTLLM, _) | (_, Windows.FULL):
            return without_windows(caches, always=True)
        case (_, Windows.POOL) if shape.architecture not in POOLED:
            return without_windows(caches, always=True)
        case _:
            return without_windows(caches) if ask.full_windows else caches


def _block_tokens(ask: MemoryAsk, rules: CountingRules, kind: CacheType, caches: Caches) -> int:
    """Tokens of a block, before pages of unlike size are made equal."""
    if any(cache.tokens_per_entry > 1 for cache in caches):
        return COMPRESSED_BLOCK
    block = ask.block_tokens or rules.block_tokens
    latent = [cache for cache in caches if cache.latent]
    if ask.block_tokens is None and latent and rules.engine is not Engine.TRTLLM:
        quantized = rules.engine is Engine.VLLM and kind.number_bytes == 1
        block = LATENT_BLOCK if quantized or len(latent) > 1 else block  # sparse ones have two caches a layer
    if rules.engine is not Engine.VLLM:
        return block
    if spared_layers(kind, 2, hybrid=False):  # a packed page has to cover one of the layers left in 16 bit
        cells = [cache.cell for cache in caches if cache.held is Held.EVERYTHING and cache.cell]
        block *= -(-max(cells, default=1) // min(cells, default=1))
    return raised_block(caches, block, latent=bool(latent))


def _block_plan(
    ask: MemoryAsk, rules: CountingRules, caches: Caches, by_stage: tuple[range, ...], block: int
) -> tuple[BlockPlan, bool]:
    """The plan, and whether it is laid out as the engine would."""
    vllm = rules.engine is Engine.VLLM
    states = 0
    if not vllm:  # TensorRT-LLM keeps states outside its blocks
        states = bytes_on_fullest(by_stage, caches, Held.STATE)
        caches = {cache: layers for cache, layers in caches.items() if cache.held is not Held.STATE}
    layout = lay_out(caches, block)
    batch = ask.batch_tokens or BATCH_TOKENS
    plan = BlockPlan(
        groups=layout.groups,
        block_bytes=max([1, *(group.bytes_in(stage) for group in layout.groups for stage in by_stage)]),
        in_flight=batch * _batches_in_flight(ask, rules),
        source=batch,
        context=ask.context,
        by_request=vllm and rules.tokens_by_request,
        ranks=_sharing(ask, rules),
        kept_back=1 if vllm else 0,
        extra=0 if vllm else 1,
        beside=states,
        apart=max((ungrouped(caches, block, stage) for stage in by_stage), key=_bytes_of),
    )
    return plan, layout.certain


def _batches_in_flight(ask: MemoryAsk, rules: CountingRules) -> int:
    """Pooling runs one after another; every pipeline stage past the first holds one more (config/vllm.py)."""
    if rules.batches_in_flight == 1:
        return 1
    return max(1, ask.pipeline) - 1 + (rules.batches_in_flight if ask.task is Task.GENERATE else 1)


def _bytes_of(pages: tuple[Paged, ...]) -> int:
    return sum(page.page * len(page.layers) for page in pages)


def _sharing(ask: MemoryAsk, rules: CountingRules) -> int:
    """Ranks that share the cache of one request: vLLM's decode context parallel."""
    return max(1, ask.decode_context) if rules.engine is Engine.VLLM else 1
