"""A tiny random Llama as safetensors with a byte-level tokenizer, and a LoRA for it: real enough for vLLM, 400 kB.

Written without PyTorch. Seen with vLLM 0.32 on CPUs: it takes heads of 32 values; with 8 it starts, says that it is
healthy, and dies of the first token.
"""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS = 64, 128, 2, 8, 4
SPECIAL = ("<s>", "</s>", "<pad>")
VOCABULARY = 320
"""256 bytes and the special tokens, up to the next multiple of 64."""

Shapes = dict[str, tuple[int, ...]]


def write_tiny_llama(directory: Path, *, head_dim: int = 32, context: int = 131_072) -> Path:
    """The files of one model; the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": context,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (directory / "config.json").write_text(json.dumps(config))
    _write_tokenizer(directory, context)
    _write_tensors(directory / "model.safetensors", _shapes(head_dim))
    return directory


def write_tiny_adapter(directory: Path, *, rank: int = 8, head_dim: int = 32) -> Path:
    """A LoRA on the queries and values of every layer, strong enough to change what is said; the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": rank,
        "lora_alpha": 2 * rank,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
    }
    (directory / "adapter_config.json").write_text(json.dumps(config))
    shapes: Shapes = {}
    for layer in range(LAYERS):
        for name, width in (("q_proj", HEADS * head_dim), ("v_proj", KV_HEADS * head_dim)):
            at = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            shapes |= {f"{at}.lora_A.weight": (rank, HIDDEN), f"{at}.lora_B.weight": (width, rank)}
    _write_tensors(directory / "adapter_model.safetensors", shapes, spread=1.0)
    return directory


def _shapes(head_dim: int) -> Shapes:
    shapes: Shapes = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "lm_head.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        shapes |= {
            f"{at}.self_attn.q_proj.weight": (HEADS * head_dim, HIDDEN),
            f"{at}.self_attn.k_proj.weight": (KV_HEADS * head_dim, HIDDEN),
            f"{at}.self_attn.v_proj.weight": (KV_HEADS * head_dim, HIDDEN),
            f"{at}.self_attn.o_proj.weight": (HIDDEN, HEADS * head_dim),
            f"{at}.mlp.gate_proj.weight": (INNER, HIDDEN),
            f"{at}.mlp.up_proj.weight": (INNER, HIDDEN),
            f"{at}.mlp.down_proj.weight": (HIDDEN, INNER),
            f"{at}.input_layernorm.weight": (HIDDEN,),
            f"{at}.post_attention_layernorm.weight": (HIDDEN,),
        }
    return shapes


def _write_tensors(path: Path, shapes: Mapping[str, tuple[int, ...]], spread: float = 0.2) -> None:
    """Norms are ones, everything else is drawn; bfloat16 is the upper half of a float."""
    drawn = random.Random(0)
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [1.0] * count if "norm" in name else [drawn.gauss(0, spread) for _ in range(count)]
        packed = struct.pack(f"<{count}f", *values)
        begin = len(data)
        data += b"".join(packed[at + 2 : at + 4] for at in range(0, len(packed), 4))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": (begin, len(data))}
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _write_tokenizer(directory: Path, context: int) -> None:
    """Every byte is a token."""
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *_letters()))}
    added = [
        {"id": index, "content": token, "special": True, "normalized": False, "lstrip": False, "rstrip": False}
        | {"single_word": False}
        for index, token in enumerate(SPECIAL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "model_max_length": context}
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    said = names | {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": template}
    (directory / "tokenizer_config.json").write_text(json.dumps(said))


def _letters() -> list[str]:
    """One printable character for each byte, as byte-level tokenizers write them."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (0x100 + place for place in range(256))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]
