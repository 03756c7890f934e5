"""llama.cpp's cache: cells of every layer for all slots, windows, latent vectors, and the state of recurrent layers.

After llama.cpp b11434: src/llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, llama-memory-recurrent.cpp, llama-hparams.cpp.
The whole cache is allocated at the start, whatever requests come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.shape import Recurrence

if TYPE_CHECKING:
    from reconciler.domain.shape import Attention, Layer, Recurrent, Shape

PADDING = 256
"""Cells that every cache is rounded up to."""
STATE_BYTES = 4
"""Recurrent state is in 32 bit, whatever the cache's type."""
BLOCK = 32
"""Elements of one block of a quantized cache; rows of other lengths are refused."""
BLOCK_BYTES = {
    "f32": 4 * BLOCK,
    "f16": 2 * BLOCK,
    "bf16": 2 * BLOCK,
    "q8_0": 34,
    "q5_1": 24,
    "q5_0": 22,
    "q4_1": 20,
    "q4_0": 18,
    "iq4_nl": 18,
}
"""Bytes of 32 elements by type (ggml/src/ggml-common.h)."""
PLAIN = frozenset({"f32", "f16", "bf16"})
DEFAULT_TYPE = "f16"


@dataclass(frozen=True, slots=True)
class Cells:
    """How the cache is laid out for one launch."""

    context: int
    """Cells of one stream."""
    slots: int
    unified: bool
    """One stream for all slots, else one a slot."""
    batch: int
    """Tokens of a micro-batch (ubatch-size)."""
    key_type: str = DEFAULT_TYPE
    value_type: str = DEFAULT_TYPE
    full_windows: bool = False
    flash: bool = True

    @property
    def streams(self) -> int:
        """Caches side by side."""
        return 1 if self.unified else self.slots

    def of(self, window: int | None) -> int:
        """Cells of one stream that a layer with this window has."""
        if window is None or self.full_windows:
            return self.context
        wanted = window * (self.slots if self.unified else 1) + self.batch
        return padded(min(self.context, wanted))


def padded(cells: int) -> int:
    """The next multiple of 256."""
    return -(-cells // PADDING) * PADDING


def cells_of(context: int, slots: int, *, unified: bool) -> int:
    """Cells of one stream where `context` is what --ctx-size is per slot; the launch asks for context x slots."""
    pool = padded(context * slots)
    return pool if unified else padded(pool // slots)


def layer_token_bytes(shape: Shape, layer: Layer, cells: Cells) -> int:
    """Bytes of one cell of one layer; 0 where it holds no cache."""
    attention = layer.attention
    if attention is None or attention.shares_cache or shape.encoder:
        return 0
    keys, values = _widths(shape, attention)
    return _row(keys, cells.key_type) + _row(values, cells.value_type)


def layer_bytes(shape: Shape, layer: Layer, cells: Cells) -> int:
    """Bytes that one layer holds for all slots: cells, and state."""
    window = layer.attention.window if layer.attention is not None else None
    held = layer_token_bytes(shape, layer, cells) * cells.of(window) * cells.streams
    return held + state_bytes(layer) * cells.slots


def state_bytes(layer: Layer) -> int:
    """Recurrent state of one sequence in one layer."""
    return STATE_BYTES * _state(layer.recurrent) if layer.recurrent is not None else 0


def plain_latent(shape: Shape) -> bool:
    """Latent attention of a GGUF file that has its projections unsplit: cached as if it were not latent."""
    return shape.file == "gguf" and shape.kv_heads > 1


def _widths(shape: Shape, attention: Attention) -> tuple[int, int]:
    latent = attention.latent
    if latent is None:
        return attention.kv_heads * attention.head_dim, attention.kv_heads * attention.value_dim
    if plain_latent(shape):
        return attention.kv_heads * (latent.nope_dim + latent.rope_dim), attention.kv_heads * latent.value_dim
    return latent.kv_rank + latent.rope_dim, 0


def _row(width: int, kind: str) -> int:
    return width * BLOCK_BYTES.get(kind, BLOCK_BYTES[DEFAULT_TYPE]) // BLOCK


def _state(recurrent: Recurrent) -> int:
    """Numbers of convolution and state."""
    taps = max(recurrent.convolution - 1, 0)
    match recurrent.kind:
        case Recurrence.SHORT_CONVOLUTION:
            return taps * recurrent.inner
        case Recurrence.MAMBA1:
            return taps * recurrent.inner + recurrent.state * recurrent.inner
        case Recurrence.MAMBA2 | Recurrence.GATED_DELTA:
            keys = recurrent.key_heads * recurrent.key_dim or recurrent.groups * recurrent.state
            return taps * (recurrent.inner + 2 * keys) + recurrent.state * recurrent.inner
        case Recurrence.KIMI_DELTA:
            return 3 * taps * recurrent.inner + recurrent.head_dim * recurrent.inner
        case Recurrence.LIGHTNING:
            return recurrent.head_dim * recurrent.inner
