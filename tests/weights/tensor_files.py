"""Checkpoints as bytes: real headers of safetensors, and weights that are zeros made when they are asked for."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "U8": 8, "I32": 32, "F4": 4}

Shape = tuple[str, tuple[int, ...]]
"""Type and dimensions."""


@dataclass(frozen=True)
class Content:
    """A file: what it begins with, then zeros up to its size. So a test can have 16 GB of weights."""

    head: bytes
    size: int

    @classmethod
    def of(cls, value: bytes | str | Mapping[str, Any] | Content) -> Content:
        if isinstance(value, Content):
            return value
        data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
        return cls(data, len(data))

    def part(self, start: int, length: int) -> bytes:
        length = max(0, min(length, self.size - start))
        data = self.head[start : start + length]
        return data + bytes(length - len(data))


def tensor_bytes(shape: Shape) -> int:
    return math.prod(shape[1]) * BITS[shape[0]] // 8


def safetensors(shapes: Mapping[str, Shape], *, metadata: Mapping[str, str] | None = None) -> Content:
    rows: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    position = 0
    for name, shape in shapes.items():
        end = position + tensor_bytes(shape)
        rows[name] = {"dtype": shape[0], "shape": list(shape[1]), "data_offsets": [position, end]}
        position = end
    return with_header(json.dumps(rows).encode(), position)


def with_header(header: bytes, data_bytes: int = 0) -> Content:
    head = len(header).to_bytes(8, "little") + header
    return Content(head, len(head) + data_bytes)


def llama_layer(layer: int, *, hidden: int, kv: int, width: int, dtype: str = "BF16") -> dict[str, Shape]:
    """The tensors of one layer, as transformers names them."""
    stem = f"model.layers.{layer}"
    sizes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (kv, hidden),
        "self_attn.v_proj": (kv, hidden),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (width, hidden),
        "mlp.up_proj": (width, hidden),
        "mlp.down_proj": (hidden, width),
    }
    sizes |= dict.fromkeys(("input_layernorm", "post_attention_layernorm"), (hidden,))
    return {f"{stem}.{name}.weight": (dtype, shape) for name, shape in sizes.items()}


def llama(layers: int, *, hidden: int, kv: int, width: int, vocabulary: int, dtype: str = "BF16") -> dict[str, Shape]:
    """All tensors of a Llama, in the order of its layers."""
    found: dict[str, Shape] = {"model.embed_tokens.weight": (dtype, (vocabulary, hidden))}
    for layer in range(layers):
        found |= llama_layer(layer, hidden=hidden, kv=kv, width=width, dtype=dtype)
    found["model.norm.weight"] = (dtype, (hidden,))
    found["lm_head.weight"] = (dtype, (vocabulary, hidden))
    return found


def sharded(shapes: Mapping[str, Shape], count: int) -> dict[str, Content]:
    """Shards of about as many tensors each, with the index that names them."""
    names = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    per_shard = -(-len(shapes) // count)
    parts = [dict(list(shapes.items())[at * per_shard : (at + 1) * per_shard]) for at in range(count)]
    weight_map = {tensor: name for name, part in zip(names, parts, strict=True) for tensor in part}
    total = sum(tensor_bytes(shape) for shape in shapes.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    shards = {name: safetensors(part, metadata={"format": "pt"}) for name, part in zip(names, parts, strict=True)}
    return {"model.safetensors.index.json": Content.of(index), **shards}
