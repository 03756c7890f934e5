"""Tensors as rows of a lock."""

from __future__ import annotations

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.lock import TensorRun
from reconciler.weights.gguf_header import Tensor
from reconciler.weights.tensor_runs import GROUPS, group_of, tensor_runs


@pytest.mark.parametrize(
    ("group", "names"),
    [
        (
            "embedding",
            ["token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight"],
        ),
        ("output_head", ["output.weight", "output.bias", "cls.output.weight"]),
        (
            "attention",
            ["attn_q.weight", "attn_qkv.bias", "attn_output.weight", "attn_kv_a_mqa.weight", "attn_sinks.weight"],
        ),
        ("attention", ["indexer.attn_q_b.weight"]),
        ("mlp", ["ffn_up.weight", "ffn_gate_inp.weight", "ffn_down_shexp.weight", "ffn_gate_inp_shexp.weight"]),
        ("experts", ["ffn_up_exps.weight", "ffn_gate_up_exps.weight", "ffn_gate_chexps.weight", "exp_probs_b.bias"]),
        (
            "norms",
            ["attn_norm.weight", "ffn_norm.weight", "output_norm.weight", "attn_q_a_norm.weight", "ssm_norm.weight"],
        ),
        (
            "vision",
            ["v.blk.0.attn_q.weight", "v.post_ln.weight", "mm.input_projection.weight", "a.blk.0.ffn_up.weight"],
        ),
        ("vision", ["vis_attn_qkv.weight"]),
        (
            "other",
            [
                "ssm_in.weight",
                "time_mix_w0.weight",
                "shortconv.conv.weight",
                "rope_freqs.weight",
                "nextn.eh_proj.weight",
            ],
        ),
    ],
)
def test_a_tensor_belongs_to_a_group_by_its_name(group: str, names: list[str]) -> None:
    assert {name: group_of(name) for name in names} == dict.fromkeys(names, group)


def test_every_name_the_gguf_package_knows_has_a_group() -> None:
    names = [name.removeprefix("blk.{bid}.").format(bid=0) for name in gguf.TENSOR_NAMES.values()]
    assert {group_of(f"{name}.weight") for name in names} == set(GROUPS)


def test_layers_that_are_alike_are_one_run() -> None:
    tensors = [Tensor(f"blk.{layer}.attn_{part}.weight", "q4_k", 10) for layer in range(4) for part in "qkv"]
    assert tensor_runs(tensors) == (TensorRun(group="attention", layers=(0, 3), dtype="q4_k", bytes=120),)


def test_a_run_ends_where_layers_differ_or_are_missing() -> None:
    bytes_by_layer = {0: 10, 1: 10, 2: 30, 4: 30, 5: 30}
    tensors = [Tensor(f"blk.{layer}.ffn_up.weight", "f16", size) for layer, size in bytes_by_layer.items()]
    assert [(run.layers, run.bytes) for run in tensor_runs(tensors)] == [((0, 1), 20), ((2, 2), 30), ((4, 5), 60)]


def test_a_layer_of_two_types_has_two_rows() -> None:
    tensors = [Tensor("blk.0.attn_q.weight", "q4_k", 10), Tensor("blk.0.attn_v.weight", "q6_k", 15)]
    assert [(run.dtype, run.bytes) for run in tensor_runs(tensors)] == [("q4_k", 10), ("q6_k", 15)]


def test_what_is_outside_the_layers_has_none() -> None:
    tensors = [Tensor("output_norm.weight", "f32", 4), Tensor("blk.0.attn_norm.weight", "f32", 4)]
    assert [(run.group, run.layers, run.bytes) for run in tensor_runs(tensors)] == [
        ("norms", None, 4),
        ("norms", (0, 0), 4),
    ]


names = st.sampled_from(
    ["token_embd", "output", "output_norm", "v.patch_embd", "rope_freqs"]
    + [
        f"{block}.{layer}.{part}"
        for block in ("blk", "enc.blk")
        for layer in (0, 1, 2, 5)
        for part in ("attn_q", "ffn_up")
    ]
)
some_tensors = st.lists(
    st.builds(Tensor, names.map("{}.weight".format), st.sampled_from(["f16", "q4_k"]), st.integers(0, 1000)),
    max_size=12,
)


@given(some_tensors)
def test_no_byte_is_lost_or_counted_twice(tensors: list[Tensor]) -> None:
    assert sum(run.bytes for run in tensor_runs(tensors)) == sum(tensor.bytes for tensor in tensors)


@given(some_tensors, st.randoms(use_true_random=False))
def test_the_order_of_the_file_is_no_matter(tensors: list[Tensor], random: st.DrawFn) -> None:
    shuffled = list(tensors)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis hands out a random.Random
    assert tensor_runs(shuffled) == tensor_runs(tensors)
