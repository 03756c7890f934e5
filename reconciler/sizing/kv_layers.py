"""What each layer of a model keeps in the cache of one rank, before an engine lays it out in blocks or pools."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Sense
from reconciler.sizing.kv_dtypes import CacheType, spared_layers
from reconciler.sizing.recurrent_state import state_bytes, states_kept
from reconciler.sizing.stages import within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.domain.shape import Attention, Layer, Shape
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.memory_ask import MemoryAsk

INDEX_SCALE = 4
"""An indexer keeps its keys in one byte a number and a float32 scale for every 128 of them."""
INDEX_GROUP = 128
COMPRESSED_BLOCK = 256
"""Tokens of one block of DeepSeek-V4 (vLLM `models/deepseek_v4`)."""
COMPRESSED_VECTOR = 584
"""Bytes of its packed vector: 448 of values, 128 of RoPE, 8 of scales."""
COMPRESSED_PAGE = 576
"""Its pages are padded to a multiple of this."""
STATE_NUMBER = 4
"""Its compressors keep keys and scores in float32."""


class Held(StrEnum):
    """How much of a sequence a layer's cache holds."""

    EVERYTHING = "everything"
    WINDOW = "window"
    CHUNK = "chunk"
    STATE = "state"
    """One state, however long the sequence is."""
    SOURCE = "source"
    """What an encoder read (cross attention)."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """One cache of one layer on one rank. `cell` is the bytes of one entry; of a state, all of it."""

    held: Held
    cell: int
    span: int = 0
    """Tokens of the window or chunk."""
    tokens_per_entry: int = 1
    block: int | None = None
    """Tokens of one block where the layer has a block size of its own."""
    page_multiple: int = 1
    """Pages are padded to a multiple of this many bytes."""
    latent: bool = False
    """Its pages cannot be padded to those of other layers."""
    states: int = 1
    """States one request keeps."""

    def page(self, block: int) -> int:
        """Bytes of one block of `block` tokens, or of one state."""
        if self.held is Held.STATE:
            return self.cell
        size = block // self.tokens_per_entry * self.cell
        return -(-size // self.page_multiple) * self.page_multiple


def layer_caches(
    shape: Shape, ask: MemoryAsk, rules: CountingRules, kind: CacheType
) -> dict[LayerCache, tuple[int, ...]]:
    """The different caches and the layers that have them, in the order of the layers."""
    hybrid = any(each.recurrent is not None for each in shape.unlike)
    spared = spared_layers(kind, len(shape.layers), hybrid=hybrid)
    crossed = any(tower.sense is Sense.TEXT for tower in shape.towers)
    known: dict[tuple[int, bool], tuple[LayerCache, ...]] = {}
    found: dict[LayerCache, list[int]] = {}
    lists: dict[tuple[int, bool], list[list[int]]] = {}
    for index, layer in enumerate(shape.layers):
        # Equal layers are one object, so that each is worked out once.
        key = (id(layer), index in spared)
        if key not in known:
            own = CacheType("auto", kind.plain) if index in spared else kind
            known[key] = tuple(_of_layer(layer, shape, ask, rules, own, crossed=crossed))
            lists[key] = [found.setdefault(cache, []) for cache in known[key]]
        for listed in lists[key]:
            listed.append(index)
    return {cache: tuple(layers) for cache, layers in found.items()}


def _of_layer(
    layer: Layer, shape: Shape, ask: MemoryAsk, rules: CountingRules, kind: CacheType, *, crossed: bool
) -> Iterator[LayerCache]:
    attention = layer.attention
    if layer.recurrent is not None:
        size = state_bytes(layer.recurrent, shape, ask, rules.engine)
        states = states_kept(layer.recurrent, rules.states_per_request if _prefix_cached(shape, ask, rules) else 1)
        if size:
            yield LayerCache(Held.STATE, size, states=states)
    if attention is None or attention.shares_cache:
        return
    if attention.compression is not None:
        yield from _compressed(attention, attention.compression)
        return
    sparse = attention.index_dim > 0
    latent = attention.latent is not None and not _unfolded(shape, rules)
    if attention.latent is not None and latent:
        numbers = attention.latent.kv_rank + attention.latent.rope_dim
        cell = kind.latent_bytes(numbers, sparse=sparse)
    else:
        values = attention.head_dim if attention.latent is not None else attention.value_dim
        cell = heads_held(attention, ask.tensor) * kind.head_bytes(attention.head_dim, values)
    if attention.window is None:
        yield LayerCache(Held.EVERYTHING, cell, latent=latent)
    else:
        held = Held.CHUNK if attention.chunked else Held.WINDOW
        yield LayerCache(held, cell, attention.window, latent=latent)
    if sparse:
        yield LayerCache(Held.EVERYTHING, _index_cell(attention.index_dim), latent=True)
    if crossed:
        yield LayerCache(Held.SOURCE, cell)


def heads_held(attention: Attention, width: int) -> int:
    """KV heads of one rank: split, and from there on repeated."""
    return -(-attention.kv_heads // width)


def _unfolded(shape: Shape, rules: CountingRules) -> bool:
    """Whether the engine runs latent attention as plain heads, values as wide as keys (vLLM, minicpm3.py)."""
    return rules.engine is Engine.VLLM and shape.model_type == "minicpm3"


def _prefix_cached(shape: Shape, ask: MemoryAsk, rules: CountingRules) -> bool:
    """Whether vLLM keeps a prefix cache: for what generates and has attention (`is_prefix_caching_supported`)."""
    if rules.engine is not Engine.VLLM or ask.task is not Task.GENERATE:
        return False
    return any(each.attention is not None for each in shape.unlike)


def _index_cell(width: int) -> int:
    return width + -(-width // INDEX_GROUP) * INDEX_SCALE


def _compressed(attention: Attention, ratio: int) -> Iterator[LayerCache]:
    """DeepSeek-V4: a window in full, one vector for `ratio` tokens, and the state of what joins them.

    vLLM 0.32 `models/deepseek_v4/{attention,compressor}.py`: states of 4 tokens overlap, so they are twice as long and
    wide; each keeps values and scores. The indexer of such layers has the same parts of its own width.
    """
    span = attention.window or 0
    yield LayerCache(
        Held.WINDOW, COMPRESSED_VECTOR, span, block=COMPRESSED_BLOCK // 4, page_multiple=COMPRESSED_PAGE, latent=True
    )
    if ratio <= 1:
        return
    parts = [(COMPRESSED_VECTOR, attention.head_dim)]
    if attention.index_dim:
        parts.append((_index_cell(attention.index_dim), attention.index_dim))
    overlap, block = (2, 4) if ratio == 4 else (1, 8)  # noqa: PLR2004  # see above
    for cell, width in parts:
        yield LayerCache(Held.EVERYTHING, cell, 0, ratio, COMPRESSED_BLOCK, page_multiple=COMPRESSED_PAGE, latent=True)
        state = 2 * overlap * width * STATE_NUMBER
        yield LayerCache(Held.WINDOW, state, overlap * ratio, block=block, page_multiple=COMPRESSED_PAGE, latent=True)


def bytes_on_fullest(by_stage: Sequence[range], caches: Mapping[LayerCache, tuple[int, ...]], held: Held) -> int:
    """Bytes a token, or of all states, of such caches on the stage that has most of them."""
    return max(
        ceil(
            sum(
                cache.cell * within(layers, stage) / cache.tokens_per_entry
                for cache, layers in caches.items()
                if cache.held is held
            )
        )
        for stage in by_stage
    )
