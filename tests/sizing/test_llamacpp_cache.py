"""Cells and bytes of llama.cpp's cache."""

from __future__ import annotations

import pytest

from reconciler.domain.shape import Attention, Latent, Layer, Recurrence, Recurrent, Shape
from reconciler.sizing.llamacpp_cache import Cells, cells_of, layer_bytes, layer_token_bytes, state_bytes
from tests.sizing.builders import a_shape


def a_layer(**figures: int | Latent | None) -> Layer:
    plain: dict[str, int | Latent | None] = {"heads": 32, "kv_heads": 8, "head_dim": 128, "value_dim": 128}
    return Layer(Attention(**(plain | figures)))  # type: ignore[arg-type]  # figures of the caller's


SHAPE = a_shape()
ONE = Cells(context=4096, slots=1, unified=False, batch=512)


@pytest.mark.parametrize(
    ("context", "slots", "unified", "cells"),
    [(4096, 1, False, 4096), (1000, 3, False, 1024), (300_000, 1, False, 300_032), (4096, 4, True, 16_384)],
)
def test_contexts_are_rounded_up_and_slots_have_one_each(context: int, slots: int, unified: bool, cells: int) -> None:
    assert cells_of(context, slots, unified=unified) == cells


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("f16", 4096),
        ("bf16", 4096),
        ("f32", 8192),
        ("q8_0", 2176),
        ("q5_1", 1536),
        ("q5_0", 1408),
        ("q4_1", 1280),
        ("q4_0", 1152),
        ("iq4_nl", 1152),
    ],
)
def test_types_are_exact_to_the_byte(kind: str, size: int) -> None:
    cells = Cells(4096, 1, False, 512, kind, kind)
    assert layer_token_bytes(SHAPE, a_layer(), cells) == size


def test_keys_and_values_may_have_types_of_their_own() -> None:
    cells = Cells(4096, 1, False, 512, "f16", "q8_0")
    assert layer_token_bytes(SHAPE, a_layer(), cells) == 2048 + 1088


@pytest.mark.parametrize(
    ("slots", "unified", "full", "cells"),
    [(1, False, False, 1536), (4, False, False, 1536), (4, True, False, 4608), (4, True, True, 16_384)],
)
def test_a_window_has_cells_for_itself_and_the_batch(slots: int, unified: bool, full: bool, cells: int) -> None:
    held = Cells(cells_of(4096, slots, unified=unified), slots, unified, 512, full_windows=full)
    assert held.of(1024) == cells


def test_a_window_wider_than_the_context_is_the_context() -> None:
    assert ONE.of(8192) == 4096


def test_latent_vectors_have_no_values() -> None:
    latent = a_layer(heads=128, kv_heads=128, latent=Latent(512, 64, 128, 128))
    assert layer_token_bytes(SHAPE, latent, ONE) == 576 * 2


def test_an_old_file_with_unsplit_projections_caches_latent_attention_in_full() -> None:
    layer = a_layer(heads=128, kv_heads=128, latent=Latent(512, 64, 128, 128))
    old = Shape("deepseek2", "deepseek2", 7168, 129280, 128, 128, (layer,), file="gguf")
    assert layer_token_bytes(old, layer, ONE) == 128 * (192 + 128) * 2


def test_a_layer_that_reads_another_ones_cache_holds_none() -> None:
    assert layer_bytes(SHAPE, Layer(Attention(8, 2, 256, 256, shares_cache=True)), ONE) == 0


@pytest.mark.parametrize(
    ("recurrent", "numbers"),
    [
        (Recurrent(Recurrence.MAMBA1, inner=8192, state=16, convolution=4, rank=256), 3 * 8192 + 16 * 8192),
        (
            Recurrent(Recurrence.MAMBA2, inner=8192, heads=128, head_dim=64, groups=8, state=128, convolution=4),
            3 * (8192 + 2 * 8 * 128) + 128 * 8192,
        ),
        (
            Recurrent(Recurrence.GATED_DELTA, 4096, 32, 128, state=128, key_heads=16, key_dim=128, convolution=4),
            3 * (4096 + 2 * 16 * 128) + 128 * 4096,
        ),
        (Recurrent(Recurrence.KIMI_DELTA, 4096, 32, 128, convolution=4), 3 * 3 * 4096 + 128 * 4096),
        (Recurrent(Recurrence.SHORT_CONVOLUTION, 2048, convolution=3), 2 * 2048),
        (Recurrent(Recurrence.LIGHTNING, 8192, 64, 128, state=128), 128 * 8192),
    ],
    ids=lambda value: value.kind.value if isinstance(value, Recurrent) else "",
)
def test_recurrent_state_is_in_32_bit_and_one_a_slot(recurrent: Recurrent, numbers: int) -> None:
    layer = Layer(recurrent=recurrent)
    assert state_bytes(layer) == 4 * numbers
    three = Cells(4096, 3, False, 512, "q8_0", "q8_0")
    assert layer_bytes(SHAPE, layer, three) == 3 * 4 * numbers
