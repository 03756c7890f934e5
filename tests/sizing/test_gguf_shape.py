"""GGUF headers, and what llama.cpp refuses."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Attention, Experts, Recurrence, Shape, Unreadable
from reconciler.sizing.gguf_shape import is_gguf, read_gguf
from tests.sizing.builders import asked, reasons


def header(name: str = "llama", **figures: Any) -> dict[str, Any]:
    plain = {
        "block_count": 4,
        "embedding_length": 4096,
        "feed_forward_length": 14336,
        "attention.head_count": 32,
        "attention.head_count_kv": 8,
        "context_length": 131072,
        "vocab_size": 128256,
    }
    given = {key.replace("__", "."): value for key, value in figures.items()}
    return {"general.architecture": name} | {f"{name}.{key}": value for key, value in (plain | given).items()}


def read(name: str = "llama", **figures: Any) -> Shape:
    shape = read_gguf(header(name, **figures))
    assert isinstance(shape, Shape), shape
    return shape


def test_a_plain_model() -> None:
    shape = read()
    assert (shape.heads, shape.kv_heads, shape.hidden, shape.vocabulary, shape.file) == (32, 8, 4096, 128256, "gguf")
    assert {layer.attention for layer in shape.layers} == {Attention(32, 8, 128, 128)}
    assert shape.trained is not None
    assert shape.trained.longest == 131072


def test_a_header_is_told_from_a_config() -> None:
    assert is_gguf(header())
    assert not is_gguf({"architectures": ["LlamaForCausalLM"]})


def test_figures_may_differ_by_layer() -> None:
    shape = read("gemma3n", attention__head_count_kv=[4, 4, 8, 8], feed_forward_length=[1, 2, 3, 4])
    assert [layer.attention.kv_heads if layer.attention else 0 for layer in shape.layers] == [4, 4, 8, 8]
    assert [layer.dense for layer in shape.layers] == [1, 2, 3, 4]


def test_experts_after_dense_layers() -> None:
    shape = read(
        "qwen3moe",
        expert_count=128,
        expert_used_count=8,
        expert_feed_forward_length=768,
        leading_dense_block_count=1,
    )
    assert shape.layers[0].experts is None
    assert shape.layers[1].experts == Experts(128, 8, 768)


def test_latent_attention() -> None:
    shape = read(
        "deepseek2",
        attention__kv_lora_rank=512,
        attention__q_lora_rank=1536,
        attention__key_length_mla=192,
        attention__value_length_mla=128,
        rope__dimension_count=64,
    )
    attention = shape.layers[0].attention
    assert attention is not None
    assert attention.latent is not None
    assert (attention.latent.kv_rank, attention.latent.nope_dim, attention.latent.value_dim) == (512, 128, 128)


def test_a_window_pattern() -> None:
    shape = read("gemma3", attention__sliding_window=1024, attention__sliding_window_pattern=2)
    assert [layer.attention.window if layer.attention else 0 for layer in shape.layers] == [1024, None, 1024, None]


@pytest.mark.parametrize(
    ("name", "figures", "kind"),
    [
        ("mamba", {"ssm.group_count": 0, "attention.head_count": 0}, Recurrence.MAMBA1),
        ("mamba2", {"ssm.group_count": 8, "attention.head_count": 0}, Recurrence.MAMBA2),
        ("qwen3next", {"ssm.group_count": 16, "attention.head_count_kv": [0, 0, 0, 2]}, Recurrence.GATED_DELTA),
    ],
)
def test_recurrent_layers(name: str, figures: dict[str, Any], kind: Recurrence) -> None:
    state = {"ssm.inner_size": 8192, "ssm.state_size": 128, "ssm.conv_kernel": 4, "ssm.time_step_rank": 128}
    metadata = header(name) | {f"{name}.{key}": value for key, value in (state | figures).items()}
    shape = read_gguf(metadata)
    assert isinstance(shape, Shape)
    first = shape.layers[0]
    assert first.attention is None
    assert first.recurrent is not None
    assert first.recurrent.kind is kind


@pytest.mark.parametrize(
    ("metadata", "because"),
    [
        ([], "the GGUF metadata is no object"),
        ({}, "the GGUF metadata has no general.architecture"),
        ({"general.architecture": "llama"}, "the GGUF metadata has no llama.block_count"),
        (header(block_count=10**6), "the GGUF metadata has 1000000 layers, expected at most 1024"),
    ],
)
def test_what_cannot_be_read_says_why(metadata: object, because: str) -> None:
    assert read_gguf(metadata) == Unreadable(because)


def test_tensor_split_is_not_written_for_every_architecture() -> None:
    mamba, llama = read("mamba2"), read("llama")
    rule = "inventory/unsupported"
    assert rule in reasons(asked(mamba, Engine.LLAMACPP, "b11434", gpus=2, split_mode="tensor"))
    assert rule not in reasons(asked(mamba, Engine.LLAMACPP, "b11434", gpus=2, split_mode="layer"))
    assert rule not in reasons(asked(llama, Engine.LLAMACPP, "b11434", gpus=2, split_mode="tensor"))
