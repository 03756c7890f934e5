"""Writes a GGUF file with a real model's figures and tensor list but no weights: a sparse file of a few kB on disk.

llama.cpp's own programs read only the header to say what they would allocate. Tensor names and shapes are those that
llama.cpp b11434 asks for (src/models/*.cpp); `wanted` says which of them an architecture has.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Sizes = tuple[int, ...]
"""Of one tensor, rows last, as llama.cpp writes them."""

SMALL = 1
"""Tensors of one dimension (norms, biases) stay in 32 bit, as do those named here."""
NEVER_QUANTIZED = ("ffn_gate_inp", "ssm_conv1d", "ssm_a", "ssm_d", "ssm_norm", "shortconv.conv", "attn_sinks")
FALLBACK = {"Q4_K": "Q5_0", "Q6_K": "Q8_0"}
"""What llama.cpp's quantizer takes where rows are no multiple of 256."""


def write_sparse(path: Path, spec: Mapping[str, Any]) -> None:
    """Write the file; `spec` has `architecture`, `keys`, `wanted` and `file_type`."""
    writer = gguf.GGUFWriter(path, spec["architecture"])
    for key, value in spec["keys"].items():
        _add(writer, f"{spec['architecture']}.{key}", value)
    writer.add_tokenizer_model("none")
    total = 0
    for name, sizes in _tensors(spec):
        kind = gguf.GGMLQuantizationType[_type(name, sizes, spec)]
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        size = math.prod(sizes) // block * block_bytes
        stored = (sizes[0] // block * block_bytes, *sizes[1:])
        shape = tuple(reversed(stored if block > 1 else sizes))
        writer.add_tensor_info(name, shape, np.dtype(np.uint8 if block > 1 else np.float32), size, kind)
        total += -(-size // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    start = -(-path.stat().st_size // 32) * 32
    with path.open("r+b") as file:
        file.truncate(start + total)


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)


def _type(name: str, sizes: Sizes, spec: Mapping[str, Any]) -> str:
    """As llama-quantize chooses for the file type, near enough to have the mixtures of real files."""
    file_type = spec["file_type"]
    if len(sizes) <= SMALL or any(part in name for part in NEVER_QUANTIZED):
        return "F32"
    if file_type == "MXFP4":
        return "MXFP4" if "exps.weight" in name else ("F32" if "exps.bias" in name else "Q8_0")
    if file_type == "Q4_K_M":
        file_type = "Q6_K" if name == "output.weight" or _sensitive(name, spec) else "Q4_K"
    if "exps.bias" in name:
        return "F32"
    block = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[file_type]][0]
    if sizes[0] % block:
        file_type = FALLBACK.get(file_type, "F16")
    block = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[file_type]][0]
    return file_type if sizes[0] % block == 0 else "F16"


def _sensitive(name: str, spec: Mapping[str, Any]) -> bool:
    """V and down projections of the first and last eighth of the layers and of every third between."""
    if not any(part in name for part in ("attn_v.", "ffn_down")):
        return name == "token_embd.weight" and "output" not in spec["wanted"]
    layer, count = int(name.split(".")[1]), int(spec["keys"]["block_count"])
    return layer < count // 8 or layer >= 7 * count // 8 or (layer - count // 8) % 3 == 2


class _Figures:
    """Keys of one architecture, by layer where they are lists."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.keys: Mapping[str, Any] = spec["keys"]
        self.wanted = frozenset(spec["wanted"])

    def __call__(self, key: str, layer: int = 0, default: int = 0) -> int:
        value = self.keys.get(key, default)
        return int(value[layer] if isinstance(value, list) else value)


def _tensors(spec: Mapping[str, Any]) -> Iterator[tuple[str, Sizes]]:
    figures = _Figures(spec)
    hidden, vocabulary = figures("embedding_length"), figures("vocab_size")
    yield "token_embd.weight", (hidden, vocabulary)
    yield "token_embd_norm.weight" if "embd_norm" in figures.wanted else "output_norm.weight", (hidden,)
    if "output" in figures.wanted:
        yield "output.weight", (hidden, vocabulary)
    for layer in range(figures("block_count")):
        for name, sizes in _layer(figures, layer):
            yield f"blk.{layer}.{name}", sizes


def _layer(figures: _Figures, layer: int) -> Iterator[tuple[str, Sizes]]:
    hidden, wanted = figures("embedding_length"), figures.wanted
    yield "attn_norm.weight", (hidden,)
    for name in ("ffn_norm", "post_attention_norm", "post_ffw_norm"):
        if name in wanted:
            yield f"{name}.weight", (hidden,)
    width = figures("feed_forward_length", layer)
    alone = "alone" in wanted  # a layer is attention, or recurrent, or feed-forward
    if _recurrent(figures, layer):
        yield from _mixer(figures, hidden)
    elif not (alone and width):
        yield from _attention(figures, layer, hidden)
    if alone and (not width or _recurrent(figures, layer)):
        return
    if figures("expert_count") and layer >= figures("leading_dense_block_count"):
        yield from _experts(figures, layer, hidden)
    elif width:
        if "gate" in wanted:
            yield "ffn_gate.weight", (hidden, width)
        yield "ffn_up.weight", (hidden, 2 * width if "fused_gate" in wanted else width)
        yield "ffn_down.weight", (width, hidden)


def _recurrent(figures: _Figures, layer: int) -> bool:
    if "mamba1" in figures.wanted or "mamba2_only" in figures.wanted:
        return True
    interval = figures("full_attention_interval")
    if interval:
        return (layer + 1) % interval != 0
    mixed = bool({"mamba2", "shortconv"} & figures.wanted)
    alone = "alone" in figures.wanted
    no_width = not (alone and figures("feed_forward_length", layer))
    return mixed and figures("attention.head_count_kv", layer) == 0 and no_width


def _attention(figures: _Figures, layer: int, hidden: int) -> Iterator[tuple[str, Sizes]]:
    heads, kv_heads = figures("attention.head_count", layer), figures("attention.head_count_kv", layer)
    width = figures("attention.key_length", default=hidden // max(heads, 1))
    wanted = figures.wanted
    if "mla" in wanted:
        yield from _latent(figures, heads, hidden)
        return
    queries = heads * width * (2 if "gated_query" in wanted else 1)
    rows = {"attn_q": queries, "attn_k": kv_heads * width, "attn_v": kv_heads * width}
    if "fused_qkv" in wanted:
        rows = {"attn_qkv": sum(rows.values())}
    for name, size in rows.items():
        yield f"{name}.weight", (hidden, size)
        if "qkv_bias" in wanted:
            yield f"{name}.bias", (size,)
    yield "attn_output.weight", (heads * width, hidden)
    if "output_bias" in wanted:
        yield "attn_output.bias", (hidden,)
    if "sinks" in wanted:
        yield "attn_sinks.weight", (heads,)
    if "qk_norm" in wanted:
        yield "attn_q_norm.weight", (width,)
        yield "attn_k_norm.weight", (width,)


def _latent(figures: _Figures, heads: int, hidden: int) -> Iterator[tuple[str, Sizes]]:
    rank, queries = figures("attention.kv_lora_rank"), figures("attention.q_lora_rank")
    key, value = figures("attention.key_length_mla"), figures("attention.value_length_mla")
    rope = figures("rope.dimension_count")
    if queries:
        yield "attn_q_a.weight", (hidden, queries)
        yield "attn_q_a_norm.weight", (queries,)
        yield "attn_q_b.weight", (queries, heads * key)
    else:
        yield "attn_q.weight", (hidden, heads * key)
    yield "attn_kv_a_mqa.weight", (hidden, rank + rope)
    yield "attn_kv_a_norm.weight", (rank,)
    yield "attn_k_b.weight", (key - rope, rank, heads)
    yield "attn_v_b.weight", (rank, value, heads)
    yield "attn_output.weight", (heads * value, hidden)


def _experts(figures: _Figures, layer: int, hidden: int) -> Iterator[tuple[str, Sizes]]:
    count, wanted = figures("expert_count"), figures.wanted
    width = figures("expert_feed_forward_length", layer) or figures("feed_forward_length", layer)
    yield "ffn_gate_inp.weight", (hidden, count)
    if "expert_bias" in wanted:
        yield "ffn_gate_inp.bias", (count,)
    if "probs_bias" in wanted:
        yield "exp_probs_b.bias", (count,)
    for name in ("gate", "up") if "gate" in wanted else ("up",):
        yield f"ffn_{name}_exps.weight", (hidden, width, count)
        if "expert_bias" in wanted:
            yield f"ffn_{name}_exps.bias", (width, count)
    yield "ffn_down_exps.weight", (width, hidden, count)
    if "expert_bias" in wanted:
        yield "ffn_down_exps.bias", (hidden, count)
    shared = figures("expert_shared_feed_forward_length") or width * figures("expert_shared_count")
    if shared:
        if "shared_gate" in wanted:
            yield "ffn_gate_inp_shexp.weight", (hidden,)
        for name in ("gate", "up") if "gate" in wanted else ("up",):
            yield f"ffn_{name}_shexp.weight", (hidden, shared)
        yield "ffn_down_shexp.weight", (shared, hidden)


def _mixer(figures: _Figures, hidden: int) -> Iterator[tuple[str, Sizes]]:
    inner, state, taps = figures("ssm.inner_size"), figures("ssm.state_size"), figures("ssm.conv_kernel")
    rank, groups = figures("ssm.time_step_rank"), figures("ssm.group_count")
    if "shortconv" in figures.wanted:
        yield "shortconv.conv.weight", (figures("shortconv.l_cache"), hidden)
        yield "shortconv.in_proj.weight", (hidden, 3 * hidden)
        yield "shortconv.out_proj.weight", (hidden, hidden)
    elif "mamba1" in figures.wanted:
        yield "ssm_in.weight", (hidden, 2 * inner)
        yield "ssm_conv1d.weight", (taps, inner)
        yield "ssm_conv1d.bias", (inner,)
        yield "ssm_x.weight", (inner, rank + 2 * state)
        yield "ssm_dt.weight", (rank, inner)
        yield "ssm_dt.bias", (inner,)
        yield "ssm_a", (state, inner)
        yield "ssm_d", (inner,)
        yield "ssm_out.weight", (inner, hidden)
    elif "delta" in figures.wanted:
        mixed = inner + 2 * groups * state
        yield "attn_qkv.weight", (hidden, mixed)
        yield "attn_gate.weight", (hidden, inner)
        yield "ssm_conv1d.weight", (taps, mixed)
        yield "ssm_dt.bias", (rank,)
        yield "ssm_a", (rank,)
        yield "ssm_ba.weight", (hidden, 2 * rank)
        yield "ssm_norm.weight", (inner // rank,)
        yield "ssm_out.weight", (inner, hidden)
    else:
        mixed = inner + 2 * groups * state
        yield "ssm_in.weight", (hidden, inner + mixed + rank)
        yield "ssm_conv1d.weight", (taps, mixed)
        yield "ssm_conv1d.bias", (mixed,)
        yield "ssm_dt.bias", (rank,)
        yield "ssm_a", (1, rank)
        yield "ssm_d", (1, rank)
        yield "ssm_norm.weight", (inner // groups, groups)
        yield "ssm_out.weight", (inner, hidden)
