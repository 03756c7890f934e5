"""A random two-layer llama of width 64 as a GGUF file: loads in a moment, answers completions and chats.

What it says is noise, but always printable ASCII and never the end of the text: a request runs to its `max_tokens`,
so that a test decides how long one lasts. Made so by a fixed first dimension of the residual stream that the output
rows of all other tokens count against.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 64
HEADS = 2
FEED_FORWARD = 128
_SPACE = "\u2581"  # how sentencepiece vocabularies write a space
_CONTROL = ["<unk>", "<s>", "</s>"]
_PRINTABLE = [_SPACE, *string.ascii_letters, *string.digits, *".,;:!?"]
_TOKENS = [*_CONTROL, *(f"<0x{byte:02X}>" for byte in range(256)), *_PRINTABLE]

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def write_tiny_gguf(
    path: Path,
    *,
    context: int = 2048,
    seed: int = 0,
    layers: int = 2,
    name: str = "tiny",
    licence: str | None = None,
    parts: int | None = None,
    chat_template: str | None = CHAT_TEMPLATE,
) -> Path:
    """Write the model, about 260 kB; another seed gives another file of the same size. `parts` only says so."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    if licence is not None:
        writer.add_license(licence)
    if parts is not None:
        writer.add_uint16(gguf.Keys.Split.LLM_KV_SPLIT_COUNT, parts)
    writer.add_context_length(context)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    _add_tokenizer(writer, chat_template)
    for tensor, values in _tensors(np.random.default_rng(seed), layers).items():
        writer.add_tensor(tensor, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_tiny_lora(path: Path, *, seed: int = 1, rank: int = 4) -> Path:
    """Write a LoRA adapter for the first layer of the tiny model, as llama.cpp takes it."""
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(rank))
    for side in ("lora_a", "lora_b"):
        shape = (rank, WIDTH) if side == "lora_a" else (WIDTH, rank)
        values = random.normal(0, 0.02, shape).astype(np.float32)
        writer.add_tensor(f"blk.0.attn_q.weight.{side}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter, chat_template: str | None) -> None:
    kinds = [
        gguf.TokenType.UNKNOWN,
        *[gguf.TokenType.CONTROL] * 2,
        *[gguf.TokenType.BYTE] * 256,
        *[gguf.TokenType.NORMAL] * len(_PRINTABLE),
    ]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(_TOKENS)
    writer.add_token_scores([0.0] * len(_TOKENS))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    if chat_template is not None:
        writer.add_chat_template(chat_template)


def _tensors(random: np.random.Generator, layers: int) -> dict[str, np.ndarray]:
    count = len(_TOKENS)
    tensors = {
        "token_embd.weight": _matrix(random, count, WIDTH, 1.0),
        "output_norm.weight": np.ones(WIDTH, np.float32),
        "output.weight": _matrix(random, count, WIDTH, 0.5),
    }
    tensors["token_embd.weight"][:, 0] = 8.0
    tensors["output.weight"][:, 0] = -100.0
    tensors["output.weight"][count - len(_PRINTABLE) :, 0] = 0.0
    for layer in range(layers):
        for norm in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{norm}.weight"] = np.ones(WIDTH, np.float32)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensors[f"blk.{layer}.{part}.weight"] = _matrix(random, WIDTH, WIDTH, 0.05)
        for part in ("ffn_gate", "ffn_up"):
            tensors[f"blk.{layer}.{part}.weight"] = _matrix(random, FEED_FORWARD, WIDTH, 0.05)
        tensors[f"blk.{layer}.ffn_down.weight"] = _matrix(random, WIDTH, FEED_FORWARD, 0.05)
    return tensors


def _matrix(random: np.random.Generator, rows: int, columns: int, spread: float) -> np.ndarray:
    return random.normal(0, spread, (rows, columns)).astype(np.float16)
