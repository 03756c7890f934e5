"""One way to run a model with llama.cpp: what each card, or the host, is allocated at any context."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Task
from reconciler.sizing.estimate import Estimate
from reconciler.sizing.llamacpp_cache import (
    BLOCK_BYTES,
    DEFAULT_TYPE,
    Cells,
    cells_of,
    layer_bytes,
    layer_token_bytes,
)
from reconciler.sizing.llamacpp_overheads import compute, limits_outputs, runtime
from reconciler.sizing.llamacpp_weights import card_weights, cards_of, whole

if TYPE_CHECKING:
    from collections.abc import Hashable

    from reconciler.domain.shape import Shape
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.llamacpp_compute import Model
    from reconciler.sizing.llamacpp_weights import Weights
    from reconciler.sizing.memory_ask import MemoryAsk, Stored

DEFAULT_SLOTS = 1
"""Of the launch, where max_concurrency is not written."""
DEFAULT_BATCH = 512
"""llama.cpp's --ubatch-size."""
_GUESSED = (0.3, 1.1)
"""Bytes of weights that only a shape is known of: they may be quantized to 4 bits."""
_SPREAD = (0.95, 1.05)
"""A card's part where only the sum of all weights is known."""
_UNSIZED = (0.8, 1.15)
"""What flags that are not counted may do to the need."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one card, or the host, holds."""

    weights: Estimate
    cache: int
    request: int
    """Of the cache, what one slot has."""
    per_token: int
    compute: Estimate
    runtime: Estimate
    unsized: bool

    @property
    def allocated(self) -> Estimate:
        """All of it, with the cache of every slot."""
        return self._with(self.cache)

    @property
    def needs(self) -> Estimate:
        """With the cache of one slot."""
        return self._with(self.request)

    def _with(self, cache: int) -> Estimate:
        found = self.weights + Estimate.exactly(cache) + self.compute + self.runtime
        return found.within(*_UNSIZED) if self.unsized else found


@dataclass(frozen=True, slots=True)
class Layout:
    """A model over the GPUs of a replica, or in host RAM."""

    model: Model
    stored: Stored
    ask: MemoryAsk
    rules: CountingRules
    weights: Weights

    @property
    def shape(self) -> Shape:
        """The model's shape."""
        return self.model.shape

    @property
    def slots(self) -> int:
        """Requests served at once."""
        return max(1, self.ask.concurrency or DEFAULT_SLOTS)

    def cells(self, context: int) -> Cells:
        """Cells of the cache; an encoder sees one batch and keeps nothing.

        Embeddings and scores take a whole input in one micro-batch, as the launch says.
        """
        ask = self.ask
        keys = ask.kv_cache_dtype if ask.kv_cache_dtype in BLOCK_BYTES else DEFAULT_TYPE
        values = ask.value_cache_dtype if ask.value_cache_dtype in BLOCK_BYTES else keys
        batch = context if ask.task in (Task.EMBED, Task.RERANK) else ask.batch_tokens or DEFAULT_BATCH
        cells = cells_of(context, self.slots, unified=ask.unified_cache)
        return Cells(
            context=min(batch, cells) if self.shape.encoder else cells,
            slots=self.slots,
            unified=ask.unified_cache,
            batch=batch,
            key_type=keys,
            value_type=values,
            full_windows=ask.full_windows,
            flash=ask.flash_attention,
        )

    def fullest(self, context: int) -> Holding:
        """The card that is allocated most, by the likely figure; without cards the host."""
        buffers: dict[Hashable, Estimate] = {}
        if not self.ask.gpus:
            return self._holding(context, tuple(range(len(self.shape.layers))), None, buffers)
        held = cards_of(self.weights, self.shape, self.ask.gpus)
        # More cards than layers leave some empty: those in the middle hold nothing that the last has not.
        some = [number for number, layers in enumerate(held) if layers or number in (0, len(held) - 1)]
        found = [self._holding(context, held[number], number, buffers) for number in some]
        return max(found, key=lambda each: each.allocated.likely)

    def _holding(
        self, context: int, layers: tuple[int, ...], number: int | None, buffers: dict[Hashable, Estimate]
    ) -> Holding:
        """What card `number` holds with these layers; None is the host. Cards in the middle have the same buffers."""
        shape, cells = self.shape, self.cells(context)
        kinds = [shape.layers[index] for index in layers]
        cache = sum(layer_bytes(shape, each, cells) for each in kinds)
        alone = replace(cells, slots=1)
        request = cache if cells.unified else sum(layer_bytes(shape, each, alone) for each in kinds)
        whole_ones = [each for each in kinds if each.attention is not None and not each.attention.window]
        growing = kinds if cells.full_windows else whole_ones
        alike = (number == 0, number == self.ask.gpus - 1, tuple(self.model.kinds[index] for index in layers))
        if alike not in buffers:
            limited = limits_outputs(self.rules, self.ask)
            buffers[alike] = compute(self.model, cells, self.ask, layers, number, limited=limited)
        return Holding(
            weights=self._weights(layers, number),
            cache=cache,
            request=request,
            per_token=sum(layer_token_bytes(shape, each, cells) for each in growing),
            compute=buffers[alike],
            runtime=runtime(self.ask, first=number == 0),
            unsized=bool(self.ask.unsized),
        )

    def _weights(self, layers: tuple[int, ...], number: int | None) -> Estimate:
        """Of the model, with its part of the adapters, and on the first card the mmproj."""
        ask, last = self.ask, number == self.ask.gpus - 1
        size = whole(self.weights, self.shape) if number is None else card_weights(self.weights, layers, head=last)
        found = Estimate.exactly(size)
        if not self.weights.known:
            found = found.within(*_GUESSED)
        elif not self.stored.tensors and ask.gpus > 1:
            found = found.within(*_SPREAD)
        extra = ask.lora.file_bytes // max(1, ask.gpus) if ask.lora is not None else 0
        if ask.projector is not None and not number:
            extra += ask.projector.weight_bytes or 0
        return found + Estimate.exactly(extra)
