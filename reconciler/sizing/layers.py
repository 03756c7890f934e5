"""Reads what each layer of the language model does: attention and window, recurrent part, feed-forward, experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import Layer
from reconciler.sizing.attention import attention_by_layer, layer_attention
from reconciler.sizing.feed_forward import plan_feed_forward
from reconciler.sizing.layer_kinds import FULL, RECURRENT, SLIDING, layer_kinds, written_kinds
from reconciler.sizing.recurrence import read_recurrent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.shape import Attention
    from reconciler.sizing.fields import Fields

LARGEST_FACTOR = 2**20
MOST_LAYERS = 1024
"""No model has near as many; more is a typing error that would only cost memory."""


def count_layers(fields: Fields, family: Mapping[str, Any]) -> int | None:
    """Layers of the language model, of an encoder-decoder the decoder's; None when the config does not say."""
    if isinstance(pattern := fields.written("hybrid_override_pattern"), str) and pattern:
        return len(pattern)
    if (listed := fields.items("layers_block_type")) and "num_hidden_layers" not in fields.raw:
        return len(listed)
    if family.get("body") == "encoder_decoder" and (decoder := fields.whole("decoder_layers")):
        return decoder
    return fields.whole("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers")


def read_layers(
    fields: Fields, family: Mapping[str, Any], attention: Attention | None, hidden: int, count: int
) -> tuple[Layer, ...]:
    """All layers in order; equal layers are one object."""
    written = written_kinds(fields, count)
    recurrent = read_recurrent(fields, hidden, attention.heads if attention else 0)
    kinds = layer_kinds(fields, written, count, attention=attention, recurrent=recurrent)
    parts = plan_feed_forward(fields, family, count, written)
    shared = fields.whole("num_kv_shared_layers") or 0
    each_apart = attention_by_layer(fields) or _dense_by_layer(fields)
    seen: dict[Layer, Layer] = {}
    known: dict[tuple[object, ...], Layer] = {}
    layers: list[Layer] = []
    for index, kind in enumerate(kinds):
        part, shares = parts[index], index >= count - shared > 0
        # Most configs say what a layer is by its kind alone: a model of eighty has one or two to read.
        alike = (kind, shares, part.dense, id(part.experts), index if each_apart else None)
        if alike not in known:
            own = layer_attention(fields, attention, kind, index, shares=shares)
            layer = Layer(
                attention=own if kind in (FULL, SLIDING) else None,
                recurrent=recurrent if kind == RECURRENT or family.get("recurrent_beside_attention") else None,
                dense=_dense(fields, family, part.dense, index),
                experts=part.experts,
            )
            known[alike] = seen.setdefault(layer, layer)
        layers.append(known[alike])
    return tuple(layers)


def _dense_by_layer(fields: Fields) -> bool:
    """Whether `_dense` tells layers of one kind apart."""
    listed = fields.items("intermediate_size", "block_configs")
    return listed is not None or fields.flag("use_double_wide_mlp")


def _dense(fields: Fields, family: Mapping[str, Any], width: int | None, index: int) -> int | None:
    """The width of one layer's plain feed-forward part where layers differ."""
    listed = fields.items("intermediate_size")
    if listed is not None and index < len(listed) and type(listed[index]) is int:
        return int(listed[index])
    blocks = fields.items("block_configs")
    if family.get("blocks") and blocks is not None and index < len(blocks) and isinstance(blocks[index], dict):
        inner = blocks[index].get("ffn")
        return _block_width(fields, inner if isinstance(inner, dict) else {})
    if width and fields.flag("block_auto_adjust_ff_dim"):
        return _adjusted(fields, width)
    if fields.flag("use_double_wide_mlp") and width and fields.whole("num_kv_shared_layers"):
        first_shared = (count_layers(fields, family) or 0) - (fields.whole("num_kv_shared_layers") or 0)
        return width * 2 if index >= first_shared > 0 else width
    return width


def _adjusted(fields: Fields, width: int) -> int:
    """LFM2 states the width before two thirds of it are taken and rounded up (lfm2.py)."""
    multiple = fields.whole("block_multiple_of") or 1
    taken = int((fields.number("block_ffn_dim_multiplier") or 1) * int(2 * width / 3))
    return -(-taken // multiple) * multiple


def _block_width(fields: Fields, ffn: Mapping[str, Any]) -> int | None:
    """Nemotron-NAS: `ffn_mult` times the hidden size, two thirds of it doubled, up to a multiple of 256."""
    if ffn.get("no_op") is True or ffn.get("replace_with_linear") is True:
        return None
    multiple, hidden = ffn.get("ffn_mult"), fields.whole("hidden_size") or 0
    if isinstance(multiple, int | float) and 0 < multiple < LARGEST_FACTOR:
        size = int(2 * multiple * hidden / 3)
        return -(-size // 256) * 256
    written = ffn.get("intermediate_size")
    return written if type(written) is int else None
