"""Tensors as rows of a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.lock import TensorRun
from reconciler.weights.tensor_names import checkpoint_place, gguf_place
from reconciler.weights.tensor_runs import Tensor, tensor_runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.weights.tensor_names import Place


def runs(tensors: list[Tensor]) -> tuple[TensorRun, ...]:
    return tensor_runs(tensors, gguf_place)


def test_layers_that_are_alike_are_one_run() -> None:
    tensors = [Tensor(f"blk.{layer}.attn_{part}.weight", "q4_k", 10) for layer in range(4) for part in "qkv"]
    assert runs(tensors) == (TensorRun(group="attention", layers=(0, 3), dtype="q4_k", bytes=120),)


def test_names_are_read_as_the_caller_says() -> None:
    tensors = [Tensor(f"model.layers.{layer}.mlp.up_proj.weight", "bf16", 10) for layer in range(2)]
    assert tensor_runs(tensors, checkpoint_place) == (TensorRun(group="mlp", layers=(0, 1), dtype="bf16", bytes=20),)


def test_a_run_ends_where_layers_differ_or_are_missing() -> None:
    bytes_by_layer = {0: 10, 1: 10, 2: 30, 4: 30, 5: 30}
    tensors = [Tensor(f"blk.{layer}.ffn_up.weight", "f16", size) for layer, size in bytes_by_layer.items()]
    assert [(run.layers, run.bytes) for run in runs(tensors)] == [((0, 1), 20), ((2, 2), 30), ((4, 5), 60)]


def test_a_layer_of_two_types_has_two_rows() -> None:
    tensors = [Tensor("blk.0.attn_q.weight", "q4_k", 10), Tensor("blk.0.attn_v.weight", "q6_k", 15)]
    assert [(run.dtype, run.bytes) for run in runs(tensors)] == [("q4_k", 10), ("q6_k", 15)]


def test_what_is_outside_the_layers_has_none() -> None:
    tensors = [Tensor("output_norm.weight", "f32", 4), Tensor("blk.0.attn_norm.weight", "f32", 4)]
    assert [(run.group, run.layers, run.bytes) for run in runs(tensors)] == [
        ("norms", None, 4),
        ("norms", (0, 0), 4),
    ]


parts = [f"{stack}{layer}." for stack in ("blk.", "enc.blk.", "model.layers.", "v.blk.") for layer in (0, 1, 2, 5)]
names = st.builds(
    "{}{}.weight".format,
    st.sampled_from(["", *parts]),
    st.sampled_from(["attn_q", "ffn_up", "self_attn.q_proj", "mlp.up_proj", "norm", "lm_head", "strange"]),
)
some_tensors = st.lists(
    st.builds(Tensor, names, st.sampled_from(["f16", "q4_k"]), st.integers(0, 1000)),
    max_size=12,
)
places = st.sampled_from([gguf_place, checkpoint_place])


@given(some_tensors, places)
def test_no_byte_is_lost_or_counted_twice(tensors: list[Tensor], place: Callable[[str], Place]) -> None:
    assert sum(run.bytes for run in tensor_runs(tensors, place)) == sum(tensor.bytes for tensor in tensors)


@given(some_tensors, places, st.randoms(use_true_random=False))
def test_the_order_of_the_file_is_no_matter(
    tensors: list[Tensor], place: Callable[[str], Place], random: st.DrawFn
) -> None:
    shuffled = list(tensors)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis hands out a random.Random
    assert tensor_runs(shuffled, place) == tensor_runs(tensors, place)
