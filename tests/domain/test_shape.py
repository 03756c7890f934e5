from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from reconciler.domain.shape import Attention, Layer, Shape, Trained

LAYER = Layer(attention=Attention(heads=8, kv_heads=2, head_dim=64, value_dim=64), dense=1024)
SHAPE = Shape(
    architecture="LlamaForCausalLM",
    model_type="llama",
    hidden=512,
    vocabulary=32000,
    heads=8,
    kv_heads=2,
    layers=(LAYER, LAYER),
)


@pytest.mark.parametrize(
    ("trained", "longest"),
    [
        (Trained(32768, "max_position_embeddings"), 32768),
        (Trained(4096, "max_position_embeddings", stretch=4.0), 16384),
        (Trained(8192, "max_position_embeddings", override=131072), 131072),
        (Trained(8192, "max_position_embeddings", override=2048), 8192),
        (Trained(1000, "n_positions", stretch=1.5), 1500),
    ],
)
def test_the_longest_context_counts_scaling_and_the_override(trained: Trained, longest: int) -> None:
    assert trained.longest == longest


def test_what_a_reader_remarked_does_not_tell_two_shapes_apart() -> None:
    remarked = replace(SHAPE, assumed=("head_dim is not written",), unknown=("something",))
    assert remarked == SHAPE
    assert hash(remarked) == hash(SHAPE)


def test_a_figure_tells_two_shapes_apart() -> None:
    assert replace(SHAPE, kv_heads=4) != SHAPE


def test_a_shape_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        SHAPE.heads = 16  # type: ignore[misc]
