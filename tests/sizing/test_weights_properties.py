"""What must hold of weights whatever the model and however it runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape
from reconciler.engines.counting import counting_rules
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.memory_ask import LoraAsk, MemoryAsk, Stored
from reconciler.sizing.weights import Weights, gpu_weights

ENGINES = st.sampled_from([Engine.VLLM, Engine.SGLANG, Engine.TRTLLM])
WIDTHS = st.sampled_from([1, 2, 3, 4, 6, 8, 16, 32])
ROUNDING = 16
"""Bytes that are rounded off, one for each group."""
CLEARLY_NEAR, CLEARLY_APART = 0.015, 0.025
"""On both sides of what counts as agreeing, in shares of what the shape gives."""

STORAGES: tuple[dict[str, Any] | None, ...] = (
    None,
    {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    {"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": False},
    {"quant_method": "fp8", "weight_block_size": [128, 128]},
    {"quant_method": "fp8"},
    {"quant_method": "mxfp4"},
)


@st.composite
def shapes(draw: st.DrawFn, *, plain: bool = False) -> Shape:
    """Dense and mixed models with all kinds of figures, plain or quantized, tied or not, some with latent attention."""
    heads = draw(st.integers(1, 64))
    config: dict[str, Any] = {
        "architectures": [draw(st.sampled_from(["LlamaForCausalLM", "Qwen3MoeForCausalLM", "DeepseekV3ForCausalLM"]))],
        "model_type": "llama",
        "hidden_size": draw(st.integers(1, 128)) * 64,
        "head_dim": draw(st.sampled_from([64, 96, 128])),
        "num_hidden_layers": draw(st.integers(1, 12)),
        "num_attention_heads": heads,
        "num_key_value_heads": draw(st.integers(1, heads)),
        "intermediate_size": draw(st.integers(1, 400)) * 64,
        "vocab_size": draw(st.integers(1, 2000)) * 64,
        "max_position_embeddings": draw(st.sampled_from([4096, 131_072])),
        "tie_word_embeddings": not plain and draw(st.booleans()),
    }
    if draw(st.booleans()):
        config |= {"num_experts": draw(st.integers(2, 64)), "num_experts_per_tok": 2}
        config |= {
            "moe_intermediate_size": draw(st.integers(1, 16)) * 64,
            "first_k_dense_replace": draw(st.integers(0, 2)),
        }
    if draw(st.booleans()):
        config |= {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
    storage = None if plain else draw(st.sampled_from(STORAGES))
    if storage is not None:
        config["quantization_config"] = storage
    shape = read_config(config)
    assert isinstance(shape, Shape)
    return shape


def weights(shape: Shape, engine: Engine, stored: Stored | None = None, **asked: Any) -> Weights:
    ask = MemoryAsk(**({"tensor": 1, "context": None} | asked))
    return gpu_weights(shape, stored or Stored(), ask, counting_rules(engine, None))


@given(shapes(), ENGINES, WIDTHS, st.integers(1, 4), st.booleans())
def test_ranks_together_hold_at_least_the_model(
    shape: Shape, engine: Engine, width: int, stages: int, whole_experts: bool
) -> None:
    whole = weights(shape, engine)
    found = weights(shape, engine, tensor=width, pipeline=stages, expert_parallel=whole_experts)
    assert len(found.by_stage) == stages
    together = sum(each.low for each in found.by_stage) * width
    assert together >= whole.fullest.likely - whole.added


@given(shapes(), ENGINES, WIDTHS, st.booleans())
def test_twice_the_ranks_never_hold_more_each(shape: Shape, engine: Engine, width: int, whole_experts: bool) -> None:
    before = weights(shape, engine, tensor=width, expert_parallel=whole_experts)
    after = weights(shape, engine, tensor=2 * width, expert_parallel=whole_experts)
    assert after.fullest.likely <= before.fullest.likely


@given(
    shapes(),
    ENGINES,
    WIDTHS,
    st.integers(1, 4),
    st.sampled_from([0, 10**6, 10**9]),
    st.none() | st.builds(LoraAsk, slots=st.integers(1, 4), rank=st.sampled_from([8, 64])),
    st.none() | st.integers(10**6, 10**11),
)
def test_parts_add_up_and_bounds_are_in_order(
    shape: Shape,
    engine: Engine,
    width: int,
    stages: int,
    offloaded: int,
    lora: LoraAsk | None,
    stored: int | None,
) -> None:
    found = weights(
        shape,
        engine,
        Stored(weight_bytes=stored),
        tensor=width,
        pipeline=stages,
        offload_bytes=offloaded,
        lora=lora,
    )
    assert sum(each.likely for each in found.parts.values()) == found.fullest.likely
    assert found.fullest == max(found.by_stage, key=lambda each: each.likely)
    for each in (*found.by_stage, *found.parts.values()):
        assert 0 <= each.low <= each.likely <= each.high


@given(shapes(plain=True), ENGINES, st.floats(0.75, 1.3))
def test_one_rank_holds_what_the_lock_says(shape: Shape, engine: Engine, factor: float) -> None:
    counted = weights(shape, engine)
    stored = int((counted.fullest.likely - counted.added) * factor)
    found = weights(shape, engine, Stored(weight_bytes=stored))
    assert found.fullest.likely - found.added == pytest.approx(stored, abs=ROUNDING)
    if abs(factor - 1) > CLEARLY_APART:
        assert found.doubts
        assert found.fullest.low <= counted.fullest.likely <= found.fullest.high + ROUNDING
    elif abs(factor - 1) < CLEARLY_NEAR:
        assert not found.doubts
