"""Which layers of a GGUF model are what, where llama.cpp knows it and the file does not say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.shape import Shape
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.gguf_shape import read_gguf
from reconciler.sizing.llamacpp_cache import Cells, layer_bytes
from reconciler.sizing.llamacpp_compute import card_buffer, model_of
from reconciler.sizing.llamacpp_inputs import ComputeAsk

HERE = Path(__file__).parent
HEADERS: dict[str, Any] = json.loads((HERE / "llamacpp_memory.json").read_text())["models"]
CONFIGS: dict[str, Any] = json.loads((HERE / "llamacpp_published.json").read_text())["models"]


def read(name: str, **figures: Any) -> Shape:
    plain: dict[str, Any] = {
        "block_count": 8,
        "embedding_length": 2048,
        "feed_forward_length": 8192,
        "attention.head_count": 16,
        "attention.head_count_kv": 4,
        "vocab_size": 32000,
    }
    given = plain | {key.replace("__", "."): value for key, value in figures.items()}
    shape = read_gguf({"general.architecture": name} | {f"{name}.{key}": value for key, value in given.items()})
    assert isinstance(shape, Shape), shape
    return shape


def windows(shape: Shape) -> list[int | None]:
    return [layer.attention.window if layer.attention is not None else None for layer in shape.layers]


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("gemma3", [5]),
        ("gemma2", [1, 3, 5, 7]),
        ("gpt-oss", [1, 3, 5, 7]),
        ("cohere2", [3, 7]),
        ("smallthinker", [0, 4]),
    ],
)
def test_windows_follow_the_architecture_where_the_file_has_no_pattern(name: str, whole: list[int]) -> None:
    found = windows(read(name, attention__sliding_window=1024))
    assert [index for index, window in enumerate(found) if window is None] == whole


def test_a_pattern_in_the_file_counts_more() -> None:
    assert (
        windows(read("gemma3", attention__sliding_window=512, attention__sliding_window_pattern=2)) == [512, None] * 4
    )


@pytest.mark.parametrize("name", ["llama", "phi3", "qwen2"])
def test_other_architectures_keep_all_layers_whole(name: str) -> None:
    assert windows(read(name, attention__sliding_window=2047)) == [None] * 8


def test_chunks_of_llama_4_have_a_length_of_their_own() -> None:
    assert windows(read("llama4")) == [8192, 8192, 8192, None] * 2
    assert windows(read("llama4", attention__sliding_window=0)) == [None] * 8


def test_heads_of_window_layers_may_be_narrower() -> None:
    shape = read(
        "gemma4",
        attention__sliding_window=1024,
        attention__sliding_window_pattern=[True, False] * 4,
        attention__key_length=512,
        attention__value_length=512,
        attention__key_length_swa=256,
        attention__value_length_swa=256,
    )
    assert [layer.attention.head_dim for layer in shape.layers if layer.attention is not None] == [256, 512] * 4


def test_every_fourth_layer_of_a_delta_hybrid_is_attention() -> None:
    ssm = {"inner_size": 4096, "state_size": 128, "time_step_rank": 32, "group_count": 16, "conv_kernel": 4}
    shape = read("qwen3next", **{f"ssm__{key}": value for key, value in ssm.items()})
    assert [layer.attention is not None for layer in shape.layers] == [False, False, False, True] * 2
    assert [layer.recurrent is not None for layer in shape.layers] == [True, True, True, False] * 2


def test_a_layer_of_nemotron_h_is_one_of_three() -> None:
    ssm = {"inner_size": 8192, "state_size": 128, "time_step_rank": 128, "group_count": 8, "conv_kernel": 4}
    shape = read(
        "nemotron_h",
        block_count=3,
        attention__head_count_kv=[0, 0, 8],
        feed_forward_length=[0, 21504, 0],
        **{f"ssm__{key}": value for key, value in ssm.items()},
    )
    found = [(layer.recurrent is not None, bool(layer.dense), layer.attention is not None) for layer in shape.layers]
    assert found == [(True, False, False), (False, True, False), (False, False, True)]
    assert not shape.gated


def test_layers_that_predict_further_tokens_are_not_counted() -> None:
    assert len(read("glm4moe", block_count=9, nextn_predict_layers=1).layers) == 8


def test_experts_may_be_in_every_other_layer() -> None:
    shape = read("llama4", expert_count=128, expert_feed_forward_length=8192, interleave_moe_layer_step=2)
    assert [layer.experts is not None for layer in shape.layers] == [False, True] * 4
    assert [layer.dense is not None for layer in shape.layers] == [True, False] * 4


@pytest.mark.parametrize(("header", "config"), [("deepseek-v3", "deepseek-r1"), ("qwen3-30b-a3b", "qwen3-30b-a3b")])
def test_a_config_and_the_header_made_of_it_say_the_same(header: str, config: str) -> None:
    name = HEADERS[header]["architecture"]
    keys = {f"{name}.{key}": value for key, value in HEADERS[header]["keys"].items()}
    one, other = read_gguf({"general.architecture": name} | keys), read_config(CONFIGS[config])
    assert isinstance(one, Shape)
    assert isinstance(other, Shape)
    cells = Cells(context=16384, slots=2, unified=False, batch=512)
    assert [layer_bytes(one, layer, cells) for layer in one.layers] == [
        layer_bytes(other, layer, cells) for layer in other.layers
    ]
    every, ask = tuple(range(len(one.layers))), ComputeAsk(cells, outputs=2, cards=1)
    buffers = {card_buffer(model_of(each), ask, every, first=True, last=True) for each in (one, other)}
    assert len(buffers) == 1
