"""Both sides of each storage rule: what a rank would hold against groups, blocks and tiles."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape
from reconciler.sizing.config_shape import read_config
from tests.sizing.builders import ROUND, a_config, a_shape, asked, reasons

RULE = "heads/quant-group"
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
FP8_TENSOR = {"quant_method": "fp8", "activation_scheme": "static"}
NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}
MXFP8 = {"quant_method": "mxfp8"}
EXPERTS = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
}


def packed(**weights: Any) -> dict[str, Any]:
    held = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128} | weights
    group = {"targets": ["Linear"], "weights": held, "input_activations": None}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": group}}


@pytest.mark.parametrize("storage", [AWQ, GPTQ, packed()], ids=["awq", "gptq", "compressed-tensors"])
@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
@pytest.mark.parametrize(
    ("intermediate", "width", "refused"),
    [
        (29568, 1, False),
        (29568, 2, True),  # 14,784 is 115.5 groups
        (29696, 2, False),
        (10944, 1, True),  # 85.5 groups on one GPU already
    ],
)
def test_a_rank_holds_whole_groups(
    storage: dict[str, Any], engine: Engine, intermediate: int, width: int, refused: bool
) -> None:
    found = asked(a_shape(intermediate_size=intermediate, quantization_config=storage), engine, gpus=width)
    assert (RULE in reasons(found)) is refused


def test_the_attention_output_counts_too() -> None:
    narrow = {"num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 64, "hidden_size": 896}
    found = asked(a_shape(**narrow, quantization_config=AWQ), gpus=2)
    assert [each.decided_by for each in found if each.reason.value == RULE] == ["self_attn.o_proj"]


@pytest.mark.parametrize("storage", [GPTQ | {"group_size": -1}, packed(strategy="channel", group_size=None)])
def test_scales_of_whole_columns_never_straddle(storage: dict[str, Any]) -> None:
    assert RULE not in reasons(asked(a_shape(intermediate_size=11008, quantization_config=storage), gpus=8))


def test_modules_left_in_16_bit_have_no_groups() -> None:
    skipping = AWQ | {"modules_to_not_convert": ["down_proj"]}
    assert RULE in reasons(asked(a_shape(intermediate_size=29568, quantization_config=AWQ), gpus=2))
    assert RULE not in reasons(asked(a_shape(intermediate_size=29568, quantization_config=skipping), gpus=2))


@pytest.mark.parametrize(
    ("version", "severity"), [("0.5.1", Severity.ERROR), ("0.19.0", Severity.WARNING), ("0.32.0", None)]
)
def test_marlin_tiles_refused_then_warned_then_padded(version: str, severity: Severity | None) -> None:
    whole = GPTQ | {"bits": 8, "group_size": -1}
    found = asked(a_shape(intermediate_size=29568, quantization_config=whole), version=version, gpus=4)
    assert {each.severity for each in found if each.reason.value == RULE} == ({severity} if severity else set())


@pytest.mark.parametrize(
    ("intermediate", "width", "refused"),
    [(18432, 16, False), (18432, 32, True), (10944, 1, False), (10944, 2, True)],
)
def test_fp8_blocks_stay_whole_on_a_rank(intermediate: int, width: int, refused: bool) -> None:
    found = asked(a_shape(intermediate_size=intermediate, quantization_config=FP8), gpus=width)
    assert (RULE in reasons(found)) is refused


def test_merged_matrices_may_end_inside_a_block_in_newer_vllm_alone() -> None:
    shape = a_shape(num_key_value_heads=4, head_dim=64, quantization_config=FP8)
    assert RULE not in reasons(asked(shape, gpus=4))
    assert RULE in reasons(asked(shape, version="0.9.0", gpus=4))
    assert RULE in reasons(asked(shape, Engine.SGLANG, gpus=4))


@pytest.mark.parametrize("storage", [FP8_TENSOR, {"quant_method": "modelopt", "quant_algo": "FP8"}])
def test_one_scale_a_matrix_never_straddles(storage: dict[str, Any]) -> None:
    assert RULE not in reasons(asked(a_shape(intermediate_size=10944, quantization_config=storage), gpus=8))


@pytest.mark.parametrize(("storage", "size"), [(NVFP4, 16), (MXFP8, 32)])
def test_small_groups_need_a_multiple_of_their_size(storage: dict[str, Any], size: int) -> None:
    good = a_shape(intermediate_size=size * 8 * 3, quantization_config=storage)
    bad = a_shape(intermediate_size=size * 8 * 3 + 8, quantization_config=storage)
    assert RULE not in reasons(asked(good, gpus=8))
    assert RULE in reasons(asked(bad, gpus=8))


@pytest.mark.parametrize(
    ("storage", "experts", "width", "refused"),
    [
        (FP8, 768, 4, False),  # 192: the grid is refined to 64
        (FP8, 768, 8, False),  # 96: to 32
        (FP8, 768, 16, True),  # 48: not below 32
        (AWQ, 768, 4, False),  # 192: the group is halved to 64
        (AWQ, 768, 16, True),
        (GPTQ, 1408, 8, True),  # 176
        (packed(), 768, 2, False),
        (packed(), 768, 4, True),  # compressed-tensors halves nothing
        (MXFP8, 768, 8, False),
        (MXFP8, 768, 16, True),
    ],
)
def test_experts_have_kernels_of_their_own(storage: dict[str, Any], experts: int, width: int, refused: bool) -> None:
    shape = a_shape(**EXPERTS, moe_intermediate_size=experts, quantization_config=storage)
    assert (RULE in reasons(asked(shape, gpus=width))) is refused
    assert RULE not in reasons(asked(shape, gpus=width, expert_parallel=True))


@pytest.mark.parametrize(
    ("engine", "version", "capability", "refused"),
    [
        (Engine.VLLM, "0.32.0", (9, 0), False),
        (Engine.VLLM, "0.32.0", (8, 0), True),
        (Engine.VLLM, "0.19.0", (9, 0), True),
        (Engine.SGLANG, "0.5.23", (9, 0), True),
    ],
)
def test_block_grids_of_experts_are_refined_by_newer_vllm_on_gpus_with_fp8(
    engine: Engine, version: str, capability: tuple[int, int], refused: bool
) -> None:
    shape = a_shape(**EXPERTS, moe_intermediate_size=768, quantization_config=FP8)
    assert (RULE in reasons(asked(shape, engine, version, gpus=4, capability=capability))) is refused


def test_cut_groups_of_gptq_experts_died_at_the_first_request_in_older_vllm() -> None:
    shape = a_shape(**EXPERTS, moe_intermediate_size=1536, quantization_config=GPTQ)
    assert RULE in reasons(asked(shape, version="0.9.1", gpus=8))
    assert RULE not in reasons(asked(shape, gpus=8))


def test_awq_without_marlin_packs_outputs_in_eights() -> None:
    plain = AWQ | {"group_size": 16, "zero_point": True}
    assert RULE in reasons(asked(a_shape(intermediate_size=ROUND * 16 + 16, quantization_config=plain), gpus=4))
    assert RULE not in reasons(asked(a_shape(quantization_config=plain), gpus=4))


def test_a_tower_named_in_the_skip_list_has_no_groups() -> None:
    vision = {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "vision_config": {"hidden_size": 1152, "num_heads": 16, "intermediate_size": 4304},
    }
    skipping = AWQ | {"modules_to_not_convert": ["visual"]}
    assert RULE in reasons(asked(a_shape(**vision, quantization_config=AWQ), gpus=1))
    assert RULE not in reasons(asked(a_shape(**vision, quantization_config=skipping), gpus=1))


@pytest.mark.parametrize(
    ("engine", "version", "decided_by"),
    [
        (Engine.SGLANG, "0.5.23", {"mlp.experts", "share_expert.gate_up_proj", "share_expert.down_proj"}),
        (Engine.VLLM, "0.32.0", {"share_expert.down_proj"}),
    ],
)
def test_step_3_5_flash_in_fp8_on_four(engine: Engine, version: str, decided_by: set[str]) -> None:
    """sgl-project/sglang#26107: experts and shared expert of 1,280 leave 320 a GPU, two and a half blocks."""
    step: dict[str, Any] = {
        "architectures": ["Step3p5ForCausalLM"],
        "model_type": "step3p5",
        "num_attention_groups": 8,
        "moe_num_experts": 288,
        "moe_intermediate_size": 1280,
        "share_expert_dim": 1280,
    }
    shape = a_shape(**step, quantization_config=FP8)
    found = asked(shape, engine, version, gpus=4, capability=(9, 0))
    assert {each.decided_by for each in found if each.reason.value == RULE} == decided_by
    assert not reasons(asked(shape, engine, version, gpus=2, capability=(9, 0)))


def test_qwen_14b_in_awq_on_two() -> None:
    """vllm-project/vllm#1816: Qwen states both halves of the feed-forward part, 27,392; 6,848 a GPU are 53.5 groups."""
    qwen = {"architectures": ["QWenLMHeadModel"], "model_type": "qwen", "intermediate_size": 27392}
    found = asked(a_shape(**qwen, quantization_config=AWQ), version="0.2.7", gpus=2)
    assert [each.decided_by for each in found if each.reason.value == RULE] == ["mlp.down_proj"]


@pytest.mark.parametrize(
    ("architecture", "section", "width", "refused"),
    [
        ("Gemma3ForConditionalGeneration", "siglip_vision_model", 4304, False),  # not even: stays in 16 bit
        ("Gemma3ForConditionalGeneration", "siglip_vision_model", 4416, True),  # even, and 34.5 groups
        ("Idefics3ForConditionalGeneration", "idefics3_vision", 4304, True),
        ("LlavaForConditionalGeneration", "siglip_vision_model", 4304, False),
        ("LlavaForConditionalGeneration", "clip_vision_model", 4304, True),
    ],
)
def test_the_feed_forward_part_of_a_siglip_tower_is_quantized_only_when_even(
    architecture: str, section: str, width: int, refused: bool
) -> None:
    tower = {"model_type": section, "hidden_size": 1152, "num_attention_heads": 16, "intermediate_size": width}
    shape = a_shape(architectures=[architecture], vision_config=tower, quantization_config=AWQ)
    found = [each.decided_by for each in asked(shape) if each.reason.value == RULE]
    assert any("mlp.fc2" in each for each in found) is refused


def test_awq_of_the_language_model_alone_leaves_the_towers() -> None:
    """vLLM's internvl.py adds vision_model to the skip list when the config stands in the language model's section."""
    tower = {"hidden_size": 1032, "num_attention_heads": 8, "intermediate_size": 4300}
    inner = a_config(model_type="qwen2")
    outer: dict[str, Any] = {"architectures": ["InternVLChatModel"], "model_type": "internvl_chat"}
    outer |= {"vision_config": tower}
    nested = read_config(outer | {"llm_config": inner | {"quantization_config": AWQ}})
    on_top = read_config(outer | {"llm_config": inner, "quantization_config": AWQ})
    assert isinstance(nested, Shape)
    assert isinstance(on_top, Shape)
    assert RULE not in reasons(asked(nested))
    assert RULE in reasons(asked(on_top))
