"""llama.cpp's compute buffers: one on every card for the graph of its layers, one in host RAM for the graph's inputs.

They are reserved at the start for a full micro-batch over the whole cache, with logits for every token that may want
them (b11434, src/llama-context.cpp::sched_reserve).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.tables import table
from reconciler.sizing.buffer_tape import Tape
from reconciler.sizing.llamacpp_cache import PLAIN, plain_latent
from reconciler.sizing.llamacpp_graph import LayerGraph
from reconciler.sizing.llamacpp_inputs import from_card, from_host, from_start, hands
from reconciler.sizing.llamacpp_scans import projected
from reconciler.sizing.llamacpp_writer import FLOAT, Batch, Place

if TYPE_CHECKING:
    from reconciler.domain.shape import Layer, Recurrent, Shape
    from reconciler.sizing.llamacpp_cache import Cells
    from reconciler.sizing.llamacpp_inputs import ComputeAsk

MOST_AT_START = 4
"""Layers at the start that may differ from the pattern of the others: DeepSeek V3 has three that are dense."""
ROTATED_MULTIPLE = 64
"""Head sizes that are multiples of it are rotated before they are quantized (src/llama-kv-cache.cpp)."""


@dataclass(frozen=True, slots=True)
class Model:
    """A shape with what the graph asks of it again and again."""

    shape: Shape
    kinds: tuple[int, ...]
    """Layers that are alike have the same number."""
    traits: frozenset[str]
    """What the graph of this architecture has that others have not."""

    @property
    def mixed(self) -> bool:
        """Whether it builds a batch that mixes tokens and embeddings."""
        return "separate_batches" not in self.traits


def model_of(shape: Shape) -> Model:
    """The model behind a shape."""
    numbers: dict[Layer, int] = {}
    kinds = tuple(numbers.setdefault(layer, len(numbers)) for layer in shape.layers)
    rows = table("llamacpp_models")["traits"]
    found = {trait for trait, row in rows.items() if shape.architecture in row["architectures"]}
    return Model(shape, kinds, frozenset({*found, "plain_latent"} if plain_latent(shape) else found))


def card_buffer(model: Model, ask: ComputeAsk, layers: tuple[int, ...], *, first: bool, last: bool) -> int:
    """Bytes on one card that holds these layers, the last with the output head; without cards of the whole graph."""
    tape, shape = Tape(), model.shape
    held = tuple(shape.layers[index] for index in layers)
    if not ask.cards:
        inputs = from_start(shape, ask, tape, mixed=model.mixed)
    elif first:
        inputs = from_host(shape, ask, held, tape, mixed=model.mixed)
    else:
        before = _lent(shape, layers[0] - 1) if layers else None
        if before is not None:
            there = hands(ask, tape)(before.there * ask.tokens * FLOAT)
            tape.use(tape.put(before.back * ask.tokens * FLOAT, there))
        inputs = from_card(shape, ask, held, tape)
    lent = _lent(shape, layers[-1]) if layers and not last else None
    fetched = None if lent is None else hands(ask, tape)(lent.back * ask.tokens * FLOAT)
    graph = LayerGraph(shape, _batch(shape, ask), inputs, tape, model.traits)
    final, stream, normed = len(shape.layers) - 1, inputs.stream, inputs.normed
    chosen = _distinct(model, layers, lent.layer if lent is not None else final)
    for position, index in enumerate(chosen):
        mine = fetched if lent is not None and index == lent.layer else None
        following = _following(shape, index, chosen[position + 1 :])
        stream = graph.layer(shape.layers[index], stream, Place(normed, mine, following, last=index == final))
        normed = None
    if last:
        graph.head(stream, normed, gathered="late_outputs" not in model.traits)
    else:
        graph.hand_over(stream)
    return tape.size()


def host_buffer(model: Model, ask: ComputeAsk) -> int:
    """Bytes in host RAM of the inputs and of the embedding, when the layers are on cards."""
    tape = Tape()
    inputs = from_start(model.shape, ask, tape, mixed=model.mixed)
    tape.use(inputs.stream)
    tape.use(inputs.positions, inputs.states, inputs.wanted, *inputs.masks.values(), *inputs.cells.values())
    return tape.size()


def _batch(shape: Shape, ask: ComputeAsk) -> Batch:
    cells = ask.cells
    attentions = {layer.attention for layer in shape.layers if layer.attention is not None}
    widest = max((_converted(layer, cells) for layer in set(shape.layers)), default=0)
    return Batch(
        tokens=ask.tokens,
        outputs=min(ask.outputs, ask.tokens),
        sequences=cells.slots,
        flash=cells.flash,
        cells={each.window: cells.of(each.window) for each in attentions},
        rotated=(
            cells.key_type not in PLAIN and all(each.head_dim % ROTATED_MULTIPLE == 0 for each in attentions),
            cells.value_type not in PLAIN and all(each.value_dim % ROTATED_MULTIPLE == 0 for each in attentions),
        ),
        converted=widest if ask.converts and cells.flash else 0,
    )


def _converted(layer: Layer, cells: Cells) -> int:
    """Bytes of K and V of one layer in 16 bit, where they are stored otherwise (ggml/src/ggml-cuda/fattn.cu)."""
    attention = layer.attention
    if attention is None:
        return 0
    keys, values = attention.kv_heads * attention.head_dim, attention.kv_heads * attention.value_dim
    if attention.latent is not None:  # V is a part of K
        keys, values = attention.latent.kv_rank + attention.latent.rope_dim, 0
    width = (0 if cells.key_type == "f16" else keys) + (0 if cells.value_type == "f16" else values)
    return 2 * width * cells.of(attention.window) * cells.streams


@dataclass(frozen=True, slots=True)
class _Lent:
    """Widths of what goes to the next card and comes back, and the layer it is for."""

    there: int
    back: int
    layer: int


def _lent(shape: Shape, index: int) -> _Lent | None:
    """What the next card works out for a layer of the one before, which ends with layer `index`.

    A recurrent layer fetches its state before the layers before it are finished, as far back as the last attention or
    scan. The copy of a scan's gate is then next in the graph, has no weights, and goes where the fetch went.
    """
    mixers = (each for each in shape.layers[index + 1 :] if each.attention is not None or each.recurrent is not None)
    following = next(mixers, None)
    if following is None or following.recurrent is None:
        return None
    while index > 0 and shape.layers[index].attention is None and shape.layers[index].recurrent is None:
        index -= 1
    layer = shape.layers[index]
    scan = layer.recurrent
    if scan is None or layer.attention is not None or layer.dense or layer.experts is not None:
        return None
    width = projected(scan)
    return _Lent(width, scan.inner, index) if width else None


def _following(shape: Shape, index: int, coming: tuple[int, ...]) -> Recurrent | None:
    """The next scan, where nothing that finishes layers stands before it: attention, or experts."""
    layer = shape.layers[index]
    if layer.recurrent is None or layer.attention is not None or layer.experts is not None:
        return None
    for each in coming:
        found = shape.layers[each]
        if found.attention is not None or found.experts is not None:
            return found.recurrent if found.attention is None else None
        if found.recurrent is not None:
            return found.recurrent
    return None


def _distinct(model: Model, layers: tuple[int, ...], wanted: int) -> tuple[int, ...]:
    """Layers that the buffer's size can depend on.

    After a few at the start, layers repeat with a period of a few. Where the stream lies differs from one layer to the
    next and is the same again after two periods: of those in the middle, pairs of periods are left out.
    """
    kinds = [model.kinds[index] for index in layers]
    for start in range(MOST_AT_START):
        rest = kinds[start:]
        period = next((each for each in range(1, len(rest) // 4) if rest[each:] == rest[:-each]), None)
        if period is not None and wanted not in layers[start:-period]:
            kept = start + 2 * period
            left_out = (len(rest) // (2 * period) - 2) * 2 * period
            return (*layers[:kept], *layers[kept + max(left_out, 0) :])
    return layers
