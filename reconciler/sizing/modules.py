"""Lists the weight matrices of a model and how an engine splits each over tensor-parallel ranks.

Names and merges are those of vLLM's and SGLang's model files, which agree: queries, keys and values in one matrix,
gate and up projection in one, experts stacked, latent projections kept whole. Layers that are alike share one entry.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reconciler.sizing.families import family_of
from reconciler.sizing.module import Module, Part, Split
from reconciler.sizing.recurrent_modules import recurrent_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.shape import Attention, Experts, Shape, Tower


@lru_cache(maxsize=2048)
def language_modules(shape: Shape) -> tuple[Module, ...]:
    """The matrices of the language model, each kind of layer once with the indices of its layers."""
    family = family_of(shape.architecture)
    out: list[Module] = list(_vocabulary(shape, family))
    for layer, layers in shape.alike().items():
        if layer.attention is not None:
            out.extend(_attention(shape, layer.attention, family, layers))
        if layer.recurrent is not None:
            out.extend(recurrent_modules(layer.recurrent, shape.hidden, family, layers))
        if layer.dense:
            out.extend(_feed_forward(shape, layer.dense, family, layers, Part.MLP, family.get("mlp", "mlp")))
        if layer.experts is not None:
            out.extend(_experts(shape, layer.experts, family, layers))
    return tuple(out)


@lru_cache(maxsize=512)
def tower_modules(shape: Shape) -> tuple[Module, ...]:
    """The matrices of its towers and of the projections after them."""
    quantized = not family_of(shape.architecture).get("towers_16_bit", False)
    return tuple(module for tower in shape.towers for module in _tower(tower, quantized=quantized))


def _vocabulary(shape: Shape, family: Mapping[str, Any]) -> Iterator[Module]:
    if shape.vocabulary:
        yield Module(Part.VOCABULARY, Split.VOCABULARY, "embed_tokens", shape.hidden, (shape.vocabulary,))
    if shape.positions:
        yield Module(Part.VOCABULARY, Split.VOCABULARY, "position_embeddings", shape.hidden, (shape.positions,))
    if family.get("split_hidden"):  # Gemma 3n projects its streams with matrices of the hidden size
        yield Module(Part.ATTENTION, Split.COLUMN, "altup_projections", shape.hidden, (shape.hidden,))


def _attention(
    shape: Shape, attention: Attention, family: Mapping[str, Any], layers: tuple[int, ...]
) -> Iterator[Module]:
    path, hidden = family.get("attention", "self_attn"), shape.hidden
    width = attention.heads * attention.value_dim
    if attention.narrow is not None:
        yield from _narrow(shape, attention, path, layers)
        return
    if attention.latent is not None:
        yield from _latent(shape, attention, path, layers)
    elif attention.shares_cache and family.get("shared_queries"):
        queries = attention.heads * attention.head_dim
        yield Module(Part.ATTENTION, Split.COLUMN, f"{path}.q_proj", hidden, (queries,), layers=layers)
    elif family.get("separate_qkv"):
        sizes = {
            "q_proj": attention.heads * attention.head_dim,
            "k_proj": attention.kv_heads * attention.head_dim,
            "v_proj": attention.kv_heads * attention.value_dim,
        }
        for name, size in sizes.items():
            yield Module(Part.ATTENTION, Split.COLUMN, f"{path}.{name}", hidden, (size,), layers=layers)
    else:
        yield Module(
            Part.ATTENTION,
            Split.QKV,
            f"{path}.qkv_proj",
            hidden,
            (),
            tuple(f"{path}.{each}_proj" for each in "qkv"),
            layers,
            heads=attention.heads * (2 if family.get("query_gate") else 1),
            kv_heads=attention.kv_heads,
            head_dim=attention.head_dim,
            value_dim=attention.value_dim,
        )
    if attention.gate:
        gate, size = f"{path}.{family['attention_gate']['name']}", attention.heads * attention.gate
        yield Module(Part.ATTENTION, Split.COLUMN, gate, hidden, (size,), layers=layers)
    yield Module(Part.ATTENTION, Split.ROW, f"{path}.o_proj", width, (hidden,), layers=layers)


def _latent(shape: Shape, attention: Attention, path: str, layers: tuple[int, ...]) -> Iterator[Module]:
    latent, hidden = attention.latent, shape.hidden
    assert latent is not None  # noqa: S101  # the caller asked
    queries = attention.heads * (latent.nope_dim + latent.rope_dim)
    narrow = latent.kv_rank + latent.rope_dim
    if latent.query_rank:
        yield Module(
            Part.ATTENTION,
            Split.WHOLE,
            f"{path}.fused_qkv_a_proj",
            hidden,
            (latent.query_rank, narrow),
            (f"{path}.q_a_proj", f"{path}.kv_a_proj_with_mqa"),
            layers,
        )
        yield Module(Part.ATTENTION, Split.COLUMN, f"{path}.q_b_proj", latent.query_rank, (queries,), layers=layers)
    else:
        yield Module(Part.ATTENTION, Split.COLUMN, f"{path}.q_proj", hidden, (queries,), layers=layers)
        yield Module(Part.ATTENTION, Split.WHOLE, f"{path}.kv_a_proj_with_mqa", hidden, (narrow,), layers=layers)
    wide = attention.heads * (latent.nope_dim + latent.value_dim)
    yield Module(Part.ATTENTION, Split.COLUMN, f"{path}.kv_b_proj", latent.kv_rank, (wide,), layers=layers)


def _narrow(shape: Shape, attention: Attention, path: str, layers: tuple[int, ...]) -> Iterator[Module]:
    """DeepSeek-V4: down-projections whole, outputs in groups (models/deepseek_v4/attention.py)."""
    narrow, hidden, width = attention.narrow, shape.hidden, attention.heads * attention.head_dim
    assert narrow is not None  # noqa: S101  # the caller asked
    both = (f"{path}.wq_a", f"{path}.wkv")
    down = (narrow.query_rank, attention.head_dim)
    grouped = narrow.output_groups * narrow.output_rank
    yield Module(Part.ATTENTION, Split.WHOLE, f"{path}.fused_wqa_wkv", hidden, down, both, layers)
    yield Module(Part.ATTENTION, Split.COLUMN, f"{path}.wq_b", narrow.query_rank, (width,), layers=layers)
    inputs = width // narrow.output_groups
    yield Module(Part.ATTENTION, Split.COLUMN, f"{path}.wo_a", inputs, (grouped,), layers=layers)
    yield Module(Part.ATTENTION, Split.ROW, f"{path}.wo_b", grouped, (hidden,), layers=layers)


def _feed_forward(
    shape: Shape, width: int, family: Mapping[str, Any], layers: tuple[int, ...], part: Part, path: str
) -> Iterator[Module]:
    up, down, hidden = family.get("up", "up_proj"), family.get("down", "down_proj"), shape.hidden
    if shape.gated:
        names = (f"{path}.gate_proj", f"{path}.up_proj")
        yield Module(part, Split.COLUMN, f"{path}.gate_up_proj", hidden, (width, width), names, layers)
    else:
        yield Module(part, Split.COLUMN, f"{path}.{up}", hidden, (width,), layers=layers)
    yield Module(part, Split.ROW, f"{path}.{down}", width, (hidden,), layers=layers)


def _experts(shape: Shape, experts: Experts, family: Mapping[str, Any], layers: tuple[int, ...]) -> Iterator[Module]:
    path = family.get("experts", family.get("mlp", "mlp"))
    inputs = experts.hidden or shape.hidden
    yield Module(Part.EXPERTS, Split.EXPERTS, f"{path}.experts", inputs, (experts.width,), layers=layers)
    if experts.shared_width:
        shared = family.get("shared_path", f"{path}.shared_experts")
        yield from _feed_forward(shape, experts.shared_width, family, layers, Part.SHARED, shared)


def _tower(tower: Tower, *, quantized: bool) -> Iterator[Module]:
    def module(part: str, split: Split, path: str, inputs: int, *outputs: int) -> Module:
        reached = quantized and part not in tower.unquantized
        split = Split.WHOLE if tower.whole else split
        return Module(Part.TOWER, split, path, inputs, outputs, where=tower.name, quantized=reached)

    hidden, width, dim = tower.hidden, tower.heads * tower.head_dim, tower.head_dim
    if tower.heads:
        qkv = module("attention", Split.QKV, "attn.qkv", hidden)
        outputs = (width, width, width) if tower.whole else ()
        yield replace(qkv, outputs=outputs, heads=tower.heads, kv_heads=tower.heads, head_dim=dim, value_dim=dim)
        yield module("attention", Split.ROW, "attn.proj", width, hidden)
    if tower.width:
        yield module("mlp", Split.COLUMN, "mlp.fc1", hidden, *(tower.width,) * (2 if tower.gated else 1))
        yield module("mlp", Split.ROW, "mlp.fc2", tower.width, hidden)
    for bridge in tower.bridges:
        first = (bridge.middle,) * (2 if bridge.gated else 1)
        column, row = (Split.WHOLE, Split.WHOLE) if bridge.whole else (Split.COLUMN, Split.ROW)
        yield module("bridges", column, f"{bridge.name}.0", bridge.source, *first)
        if bridge.target:
            yield module("bridges", row, f"{bridge.name}.1", bridge.middle, bridge.target)
