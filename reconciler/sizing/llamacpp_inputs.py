"""What a card, or the host, is given before its part of llama.cpp's graph, written onto the tape.

Inputs of the whole graph lie in host RAM, and every card has copies of those it reads (ggml/src/ggml-backend.cpp).
With several cards and all layers on them, micro-batches follow each other through the cards, and every copy is there
four times and stays; otherwise it is freed after its last reader. The small ones matter: they part the holes between
others, and so decide where large results can go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.sizing.llamacpp_writer import FLOAT, Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.domain.shape import Layer, Shape
    from reconciler.sizing.buffer_tape import Tape
    from reconciler.sizing.llamacpp_cache import Cells

    Take = Callable[[int], int]
    """Puts an input of so many bytes onto the tape."""

COPIES = 4
"""GGML_SCHED_MAX_COPIES."""
INDEX = 4
"""Bytes of a position or a token."""
CELL = 8
"""Bytes of the number of a cell."""


@dataclass(frozen=True, slots=True)
class ComputeAsk:
    """What sizes the buffers beside the shape."""

    cells: Cells
    outputs: int
    """Tokens of a micro-batch whose logits are computed."""
    cards: int
    """0: all of it on the host."""
    converts: bool = False
    """The device's fused attention needs K and V in 16 bit and makes copies where they are not (CUDA)."""

    @property
    def tokens(self) -> int:
        """Of the micro-batch: no more than there are cells, and as many for every slot."""
        cells = self.cells
        tokens = min(cells.context * cells.streams, cells.batch)
        return -(-tokens // cells.slots) * cells.slots

    @property
    def copies(self) -> int:
        """Of every input."""
        return COPIES if self.cards > 1 else 1


def from_start(shape: Shape, ask: ComputeAsk, tape: Tape, *, mixed: bool) -> Inputs:
    """The inputs of the whole graph, and the embedding.

    Inputs for embeddings in place of tokens are always there. Most architectures also build a batch that mixes both;
    where it is built, a copy of the embeddings stays to the end though nothing reads it.
    """
    hidden = shape.hidden * ask.tokens * FLOAT

    def take(size: int) -> int:
        return _taken(tape, size, ask.copies)

    words, _ = take(ask.tokens * INDEX), take(hidden)
    others, slots, embeddings = (
        (take(ask.tokens * INDEX), take(ask.tokens * CELL), take(hidden)) if mixed else (0, 0, 0)
    )
    positions, cells, masks, states, wanted = _rest(ask, shape.layers, take)
    stream = tape.put(hidden, words)
    if mixed:
        rows = tape.put(hidden, others)
        if ask.cards:
            tape.use(embeddings)
        else:
            tape.keep(tape.put(hidden, embeddings))
        tape.use(rows, slots)
    return Inputs(stream, positions, cells, masks, states, wanted)


def from_host(shape: Shape, ask: ComputeAsk, layers: tuple[Layer, ...], tape: Tape, *, mixed: bool) -> Inputs:
    """What the first card is given; the batch that mixes tokens and embeddings is built here."""
    take = hands(ask, tape)
    hidden = shape.hidden * ask.tokens * FLOAT
    embeddings, rows, slots = (take(hidden), take(hidden), take(ask.tokens * CELL)) if mixed else (0, 0, 0)
    stream = take(hidden)
    positions, cells, masks, states, wanted = _rest(ask, layers, take)
    if mixed:
        tape.keep(tape.put(hidden, embeddings))
        tape.use(rows, slots)
    return Inputs(stream, positions, cells, masks, states, wanted)


def from_card(shape: Shape, ask: ComputeAsk, layers: tuple[Layer, ...], tape: Tape) -> Inputs:
    """What a later card is given: the stream, and its norm, which the card before works out as it has no weights."""
    take = hands(ask, tape)
    hidden = shape.hidden * ask.tokens * FLOAT
    normed = take(hidden)
    positions, cells, masks, states, wanted = _rest(ask, layers, take)
    return Inputs(take(hidden) if layers else normed, positions, cells, masks, states, wanted, normed)


def hands(ask: ComputeAsk, tape: Tape) -> Take:
    """Takes copies of what lies elsewhere."""
    if ask.copies > 1:
        return lambda size: _taken(tape, size, ask.copies)
    return tape.put


def mask_bytes(ask: ComputeAsk, layers: tuple[Layer, ...]) -> dict[int | None, int]:
    """Bytes of the attention masks by window: what every token of a micro-batch may look at."""
    element = 2 if ask.cells.flash else FLOAT
    windows = {layer.attention.window for layer in layers if layer.attention is not None}
    return {window: ask.cells.of(window) * ask.tokens * element for window in sorted(windows, key=str)}


def _rest(
    ask: ComputeAsk, layers: tuple[Layer, ...], take: Take
) -> tuple[int, dict[int | None, int], dict[int | None, int], int, int]:
    """Positions, cells, masks, states and wanted tokens."""
    positions = take(ask.tokens * INDEX)
    cells: dict[int | None, int] = {}
    masks: dict[int | None, int] = {}
    for window, size in mask_bytes(ask, layers).items():
        cells[window] = take(ask.tokens * CELL * (1 + _value_places(ask, layers)))
        masks[window] = take(size)
    recurrent = any(layer.recurrent is not None for layer in layers)
    states = take(ask.cells.slots * INDEX if recurrent else 0)
    return positions, cells, masks, states, take(min(ask.outputs, ask.tokens) * INDEX)


def _value_places(ask: ComputeAsk, layers: tuple[Layer, ...]) -> int:
    """Places of a token's values: one in a row; without flash attention V lies transposed and each value has its own.

    Latent attention has no V.
    """
    plain = [each.attention for each in layers if each.attention is not None and each.attention.latent is None]
    if ask.cells.flash or not plain:
        return len(plain[:1])
    return max(each.kv_heads * each.value_dim for each in plain)


def _taken(tape: Tape, size: int, copies: int) -> int:
    """An input of the whole graph; each of several copies stays."""
    for _ in range(copies - 1):
        tape.take(size, kept=True)
    return tape.take(size, kept=copies > 1)
