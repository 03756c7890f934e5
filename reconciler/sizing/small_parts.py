"""The small parts of a model beside its matrices: norms, routers, convolutions, decays, position tables, patches.

They are a thousandth of most models and a hundredth of small ones; sizes as vLLM 0.32's model files build them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import Recurrence
from reconciler.sizing.families import family_of
from reconciler.sizing.module import Module, Part, Split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.shape import Attention, Experts, Layer, Shape, Tower

Row = tuple[Module, bool]
"""A part, and whether it lies in the last pipeline stage (else in the first) where it has no layers."""
FULL_TO_HALF = 2
"""A 32-bit number takes as much as two of the model's own."""


def small_modules(shape: Shape, table: Mapping[str, Any]) -> Iterator[Row]:
    """All of a model's language part; `table` is what we know of its architecture."""
    hidden = shape.hidden
    factor = 2 if table.get("norm_bias") else 1
    if table.get("final_norm", 1):
        yield _whole(Part.NORM, "norm", factor * hidden), True
    if shape.encoder:
        # Segments (two rows, padded as the vocabulary is) and the norm after the embedding.
        segments = Module(Part.VOCABULARY, Split.VOCABULARY, "token_type_embeddings", hidden, (2,), quantized=False)
        if shape.positions:
            yield segments, False
    if shape.beside is not None:
        yield from _beside(shape, shape.beside[1])
    extra = table.get("positions")
    if extra is not None and shape.trained is not None:
        yield _whole(Part.VOCABULARY, "embed_positions", hidden * (shape.trained.tokens + extra)), False
    for layer, found in shape.alike().items():
        for module in _of_layer(shape, layer, table, found):
            yield module, False


def tower_parts(tower: Tower) -> Iterator[Module]:
    """Patch embedding, positions, norms and biases of a tower; every rank has them whole."""
    hidden, width = tower.hidden, tower.heads * tower.head_dim
    per_layer = 4 * hidden + 4 * width + (2 if tower.gated else 1) * tower.width + hidden
    numbers = tower.layers * per_layer + hidden * (tower.patch + tower.positions)
    yield _whole(Part.TOWER, "patches, positions, norms", numbers)


def _of_layer(shape: Shape, layer: Layer, table: Mapping[str, Any], layers: tuple[int, ...]) -> Iterator[Module]:
    family, hidden = family_of(shape.architecture), shape.hidden
    parts = sum(1 for each in (layer.attention or layer.recurrent, layer.dense or layer.experts) if each)
    norms = table.get("norms", parts) * (2 if table.get("norm_bias") else 1)
    yield _whole(Part.NORM, "norms", norms * hidden + _head_norms(layer, table), layers)
    path = family.get("attention", "self_attn")
    attention = layer.attention
    if attention is not None and attention.latent is not None:
        latent = attention.latent
        yield _whole(Part.NORM, "latent_norms", latent.kv_rank + (latent.query_rank or 0), layers)
    if attention is not None:
        yield from _sparse(hidden, attention, path, layers)
    if layer.experts is not None:
        yield from _routers(shape, layer.experts, table, layers)
        if layer.experts.hidden:  # Nemotron 3: experts work in a narrower space
            yield _whole(Part.MLP, "latent projections", 2 * hidden * layer.experts.hidden, layers)
    if layer.recurrent is not None:
        yield from _of_recurrent(shape, layer, layers, family.get("recurrent", "mixer"))


def _beside(shape: Shape, width: int) -> Iterator[Row]:
    """What brings the embedding of each layer in: a projection for all of them, a gate and a projection in each."""
    layers = tuple(range(len(shape.layers)))
    model = Module(Part.MLP, Split.COLUMN, "per_layer_model_projection", shape.hidden, (width,), quantized=False)
    yield model, False
    yield _whole(Part.MLP, "per_layer_input_gate", 2 * shape.hidden * (width // len(layers)), layers), False


def _routers(shape: Shape, experts: Experts, table: Mapping[str, Any], layers: tuple[int, ...]) -> Iterator[Module]:
    """The router and the gate of the shared experts; some model files quantize it unless the config leaves it out."""
    hidden, count = shape.hidden, experts.count
    if table.get("router_quantized"):
        path = family_of(shape.architecture).get("experts", "mlp")
        yield Module(Part.MLP, Split.WHOLE, f"{path}.gate", hidden, (count,), layers=layers)
    else:
        yield _whole(Part.MLP, "router", hidden * count * (FULL_TO_HALF if table.get("router_full") else 1), layers)
    if table.get("shared_gate") and experts.shared_width:
        yield _whole(Part.MLP, "shared_expert_gate", hidden, layers)


def _sparse(hidden: int, attention: Attention, path: str, layers: tuple[int, ...]) -> Iterator[Module]:
    """The indexer of sparse attention, and DeepSeek-V4's compressors; every rank has them whole."""
    if attention.index_heads:
        wide = attention.index_heads * attention.index_dim
        ranks = (attention.latent or attention.narrow) and (attention.latent or attention.narrow).query_rank  # type: ignore[union-attr]
        yield Module(Part.ATTENTION, Split.WHOLE, f"{path}.indexer.wq_b", ranks or hidden, (wide,), layers=layers)
        if attention.compression is None:
            yield Module(Part.ATTENTION, Split.WHOLE, f"{path}.indexer.wk", hidden, (attention.index_dim,), (), layers)
        yield _whole(Part.ATTENTION, "indexer.weights_proj", hidden * attention.index_heads, layers)
    if attention.compression:
        # Values and gates, twice as many where neighbouring groups overlap.
        overlap = 2 if attention.index_dim else 1
        numbers = 2 * overlap * (attention.head_dim + attention.index_dim) * hidden
        yield _whole(Part.ATTENTION, "compressor", numbers, layers)


def _head_norms(layer: Layer, table: Mapping[str, Any]) -> int:
    attention = layer.attention
    if attention is None or attention.latent is not None:
        return 0
    match table.get("qk"):
        case "head":
            return 2 * attention.head_dim
        case "full" | "heads":
            return (attention.heads + attention.kv_heads) * attention.head_dim
        case _:
            return 0


def _of_recurrent(shape: Shape, layer: Layer, layers: tuple[int, ...], path: str) -> Iterator[Module]:
    recurrent = layer.recurrent
    assert recurrent is not None  # noqa: S101  # the caller asked
    inner, taps, state = recurrent.inner, recurrent.convolution, recurrent.state

    def column(name: str, inputs: int, outputs: int) -> Module:
        where = f"{path}.{name}"
        return Module(Part.RECURRENT, Split.COLUMN, where, inputs, (outputs,), layers=layers, quantized=False)

    match recurrent.kind:
        case Recurrence.MAMBA1:  # decays in 32 bit, the skip, and biases of step and convolution
            yield column("A", FULL_TO_HALF * state + 3, inner)
        case Recurrence.MAMBA2:
            groups = 2 * recurrent.groups * state
            yield column("conv1d", taps + 1, inner)
            yield column("norm", 1, inner)
            yield column("A", FULL_TO_HALF + 2, recurrent.heads)
            if recurrent.groups > 1:
                yield column("conv1d of groups", taps + 1, groups)
            else:  # one group is whole on every rank
                yield _whole(Part.RECURRENT, "conv1d of groups", (taps + 1) * groups, layers)
                yield Module(Part.RECURRENT, Split.WHOLE, f"{path}.in_proj", shape.hidden, (groups,), layers=layers)
        case Recurrence.GATED_DELTA:
            yield column("A_log", FULL_TO_HALF + 1, recurrent.heads)
            yield _whole(Part.RECURRENT, "norm", recurrent.head_dim, layers)
        case Recurrence.KIMI_DELTA:
            narrow = f"{path}.f_a_proj"
            yield Module(Part.RECURRENT, Split.WHOLE, narrow, shape.hidden, (2 * recurrent.rank,), layers=layers)
            yield column("dt_bias", FULL_TO_HALF, inner)
        case Recurrence.SHORT_CONVOLUTION | Recurrence.LIGHTNING:
            yield _whole(Part.RECURRENT, "norm", recurrent.head_dim, layers)


def _whole(part: Part, path: str, numbers: int, layers: tuple[int, ...] = ()) -> Module:
    """Numbers that every rank holds all of, never quantized."""
    return Module(part, Split.WHOLE, path, numbers, (1,), layers=layers, quantized=False)
