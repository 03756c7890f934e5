"""Reads attention: heads and widths at the top of a config, and where single layers differ from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reconciler.domain.shape import Attention, Latent, Narrow
from reconciler.sizing.fields import LARGEST_FIGURE
from reconciler.sizing.layer_kinds import KINDS, SLIDING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.sizing.fields import Fields

INDEXED_COMPRESSION = 4
"""Layers of DeepSeek-V4 that join this many tokens choose among them with an indexer; coarser ones look at all."""


def read_attention(fields: Fields, family: Mapping[str, Any], hidden: int) -> Attention | None:
    """Attention as the top of the config states it; layers may differ from it."""
    heads = fields.whole("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads")
    if not heads:
        return None
    latent = _latent(fields)
    width = fields.whole("head_dim", "attention_head_dim", "hidden_size_per_head", "kv_channels") or hidden // heads
    kv_heads = _kv_heads(fields, heads)
    value = fields.whole("v_head_dim") if latent is None and fields.model_type.startswith("mimo_v2") else None
    if latent is not None:
        gate = _gate(fields, family, latent.value_dim)
        return Attention(heads, kv_heads, latent.nope_dim + latent.rope_dim, latent.value_dim, latent=latent, gate=gate)
    gate = _gate(fields, family, value or width)
    return Attention(heads, kv_heads, width, value or width, gate=gate, narrow=_narrow(fields))


def _narrow(fields: Fields) -> Narrow | None:
    outputs, queries, groups = (fields.whole(name) for name in ("o_lora_rank", "q_lora_rank", "o_groups"))
    return Narrow(queries, outputs, groups) if outputs and queries and groups else None


def _gate(fields: Fields, family: Mapping[str, Any], value_dim: int) -> int:
    """Some families have a gate always, some where their config says so; one output a head, or one a channel."""
    rule = family.get("attention_gate")
    if not rule:
        return 0
    said = fields.written(rule["key"]) if "key" in rule else True
    if said is None:
        said = rule.get("default", False)
    if not said:
        return 0
    key, word = rule.get("other", (None, None))
    per_head = rule["per"] == "head"
    if key is not None and fields.written(key) == word:
        per_head = not per_head
    return 1 if per_head else value_dim


def _latent(fields: Fields) -> Latent | None:
    rank = fields.whole("kv_lora_rank")
    if not rank:
        return None
    return Latent(
        kv_rank=rank,
        rope_dim=fields.whole("qk_rope_head_dim") or 0,
        nope_dim=fields.whole("qk_nope_head_dim") or 0,
        value_dim=fields.whole("v_head_dim") or 0,
        query_rank=fields.whole("q_lora_rank") or None,
    )


def _kv_heads(fields: Fields, heads: int) -> int:
    """In vLLM's order; Falcon without the newer decoder and with multi_query has one."""
    if fields.model_type in ("falcon", "RefinedWeb", "RefinedWebModel"):
        if not fields.flag("new_decoder_architecture") and fields.flag("multi_query"):
            return 1
        return fields.whole("num_kv_heads", "n_head_kv") or heads
    if fields.model_type == "gpt_bigcode" and fields.flag("multi_query"):
        return 1
    inner = fields.raw.get("attn_config")
    if isinstance(inner, dict) and type(inner.get("kv_n_heads")) is int:
        return int(inner["kv_n_heads"]) or heads
    names = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
    if (found := fields.whole(*names)) is not None:
        return found or heads
    for block in fields.items("block_configs") or ():
        group = block.get("attention", {}) if isinstance(block, dict) else {}
        size = group.get("n_heads_in_group") if isinstance(group, dict) else None
        if type(size) is int and size > 0:
            return heads // size
    return heads


_BY_LAYER = ("per_layer_config", "num_attention_heads_per_layer", "block_configs", "compress_ratios", "index_topk")
"""Keys under which a config says of layers one by one what their attention is: those that `layer_attention` reads."""


def attention_by_layer(fields: Fields) -> bool:
    """Whether `layer_attention` tells layers of one kind apart."""
    return fields.written(*_BY_LAYER) is not None


def layer_attention(fields: Fields, base: Attention | None, kind: str, index: int, *, shares: bool) -> Attention | None:
    """Attention of one layer: window layers of some families have heads of their own."""
    if base is None:
        return None
    heads, kv_heads, width, value = base.heads, base.kv_heads, base.head_dim, base.value_dim
    window = fields.whole("sliding_window", "attention_chunk_size", "sliding_window_size") if kind == SLIDING else None
    if kind == SLIDING:
        heads = fields.whole("swa_num_attention_heads") or heads
        kv_heads = fields.whole("swa_num_key_value_heads") or kv_heads
        width = fields.whole("swa_head_dim") or width
        value = fields.whole("swa_v_head_dim") or (width if base.value_dim == base.head_dim else value)
    elif fields.model_type.startswith("gemma4"):
        width = value = fields.whole("global_head_dim") or width
        if fields.flag("attention_k_eq_v"):
            kv_heads = fields.whole("num_global_key_value_heads") or kv_heads
    own = _own_figures(fields, kind, index)
    heads, kv_heads = own.get("num_attention_heads", heads), own.get("num_key_value_heads", kv_heads)
    if "head_dim" in own:
        width = value = own["head_dim"]
    block = _block(fields, index)
    if block is not None:
        group = block.get("n_heads_in_group")
        if block.get("no_op") is True or block.get("replace_with_linear") is True:
            return None
        kv_heads = heads // group if type(group) is int and group > 0 else kv_heads
    gate = value if base.gate == base.value_dim else base.gate
    chunked = (
        window is not None and fields.whole("sliding_window") is None and bool(fields.whole("attention_chunk_size"))
    )
    own_cache = Attention(heads, kv_heads, width, value, window, base.latent, shares, gate, chunked)
    return _sparse(fields, replace(own_cache, narrow=base.narrow) if base.narrow is not None else own_cache, index)


def _sparse(fields: Fields, attention: Attention, index: int) -> Attention:
    """What sparse attention caches besides: an indexer's keys (DSA), vectors for many tokens at once (DeepSeek-V4)."""
    width = fields.whole("index_head_dim") if fields.written("index_topk") is not None else None
    ratios = fields.items("compress_ratios")
    if ratios is not None and index < len(ratios) and type(ratios[index]) is int:
        indexed = ratios[index] == INDEXED_COMPRESSION
        heads = fields.whole("index_n_heads") or 0
        return replace(
            attention,
            compression=ratios[index],
            index_dim=width or 0 if indexed else 0,
            index_heads=heads if indexed else 0,
        )
    if not width or attention.latent is None or _index_shared(fields, index):
        return attention
    return replace(attention, index_dim=width, index_heads=fields.whole("index_n_heads") or 0)


def _index_shared(fields: Fields, index: int) -> bool:
    """Some layers use the choice of an earlier one: by a pattern of letters, or every so many layers (IndexCache)."""
    pattern = fields.written("index_topk_pattern")
    if isinstance(pattern, str | list):
        return index < len(pattern) and pattern[index] == "S"
    every, offset = fields.whole("index_topk_freq") or 1, fields.whole("index_skip_topk_offset")
    return max(index - (2 if offset is None else offset) + 1, 0) % every != 0


def _own_figures(fields: Fields, kind: str, index: int) -> dict[str, int]:
    """Where one layer's heads differ: by its number (transformers 5), listed (Laguna) or for its kind (Step-3.5)."""
    found: dict[str, Any] = {}
    if isinstance(by_number := fields.raw.get("per_layer_config"), dict):
        written = by_number.get(f"{index:02}", by_number.get(str(index)))
        found = written if isinstance(written, dict) else {}
    elif (listed := fields.items("num_attention_heads_per_layer")) is not None and index < len(listed):
        found = {"num_attention_heads": listed[index]}
    elif isinstance(by_kind := fields.raw.get("attention_other_setting"), dict):
        found = by_kind if KINDS.get(str(by_kind.get("attention_type"))) == kind else {}
        found = {"num_key_value_heads": found.get("num_attention_groups"), **found}
    return {name: value for name, value in found.items() if type(value) is int and 0 < value <= LARGEST_FIGURE}


def _block(fields: Fields, index: int) -> Mapping[str, Any] | None:
    """Nemotron-NAS: one block a layer, each with its own attention."""
    blocks = fields.items("block_configs")
    if blocks is None or index >= len(blocks) or not isinstance(blocks[index], dict):
        return None
    inner = blocks[index].get("attention")
    return inner if isinstance(inner, dict) else None
