"""Both sides of every rule, per engine."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from tests.sizing.builders import ROUND, a_shape, asked, reasons

LATENT = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "moe_intermediate_size": ROUND,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
EXPERTS = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 1,
}
MAMBA2 = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "M-M*",
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "n_routed_experts": 1,
}
DELTA = {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "num_experts": 512,
    "moe_intermediate_size": ROUND,
    "shared_expert_intermediate_size": ROUND,
    "decoder_sparse_step": 1,
}


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG, Engine.TRTLLM])
def test_attention_heads_must_divide(engine: Engine) -> None:
    shape = a_shape(num_attention_heads=64, num_key_value_heads=64, hidden_size=8192)
    assert "heads/attention-split" in reasons(asked(shape, engine, gpus=6))
    assert "heads/attention-split" not in reasons(asked(shape, engine, gpus=8))


def test_the_message_says_the_heads_and_the_width() -> None:
    found = asked(a_shape(num_attention_heads=64, num_key_value_heads=8, hidden_size=8192), gpus=6)
    messages = {each.reason.value: each.message for each in found}
    assert messages["heads/attention-split"] == "64 attention heads do not divide by 6"
    assert messages["heads/kv-split"] == "8 KV heads do not spread over 6 GPUs"


@pytest.mark.parametrize(
    ("kv_heads", "width", "refused", "copied"),
    [(8, 4, False, False), (8, 8, False, False), (8, 16, False, True), (8, 12, True, False), (6, 4, True, False)],
)
@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_kv_heads_split_or_are_copied(engine: Engine, kv_heads: int, width: int, refused: bool, copied: bool) -> None:
    found = asked(a_shape(num_attention_heads=ROUND, num_key_value_heads=kv_heads), engine, gpus=width)
    assert ("heads/kv-split" in reasons(found)) is refused
    assert ("heads/kv-replicated" in reasons(found, Severity.WARNING)) is copied


def test_tensorrt_llm_takes_kv_heads_that_do_not_divide_and_is_warned_of() -> None:
    found = asked(a_shape(num_key_value_heads=8), Engine.TRTLLM, "1.2.1", gpus=6)
    assert "heads/kv-split" in reasons(found, Severity.WARNING)
    assert "heads/kv-split" not in reasons(found)


def test_latent_attention_has_no_kv_heads_to_split() -> None:
    found = asked(a_shape(num_key_value_heads=1, **LATENT), gpus=8)
    assert reasons(found) == set()
    assert "heads/kv-replicated" not in reasons(found, Severity.WARNING)


@pytest.mark.parametrize(
    ("architecture", "engine", "version", "refused"),
    [
        ("GptOssForCausalLM", Engine.VLLM, "0.32.0", True),
        ("NanbeigeForCausalLM", Engine.SGLANG, "0.5.23", True),
        ("ChatGLMModel", Engine.VLLM, "0.2.1", True),
        ("ChatGLMModel", Engine.VLLM, "0.32.0", False),
        ("LlamaForCausalLM", Engine.VLLM, "0.32.0", False),
    ],
)
def test_some_model_files_do_not_copy_kv_heads(architecture: str, engine: Engine, version: str, refused: bool) -> None:
    shape = a_shape(architectures=[architecture], num_key_value_heads=2, ffn_hidden_size=ROUND)
    assert ("heads/kv-split" in reasons(asked(shape, engine, version, gpus=4))) is refused


@pytest.mark.parametrize(
    ("engine", "version", "vocabulary", "width", "refused"),
    [
        (Engine.VLLM, "0.32.0", 151936, 3, True),
        (Engine.VLLM, "0.32.0", 128256, 3, False),
        (Engine.VLLM, "0.32.0", 49155, 4, False),  # padded to 49,216
        (Engine.VLLM, "0.1.7", 250682, 8, True),  # not padded then
        (Engine.VLLM, "0.2.7", 250682, 8, False),
        (Engine.SGLANG, "0.5.23", 151936, 3, False),
        (Engine.TRTLLM, "1.2.1", 151936, 3, False),
    ],
)
def test_only_vllm_refuses_a_vocabulary(
    engine: Engine, version: str, vocabulary: int, width: int, refused: bool
) -> None:
    found = asked(a_shape(vocab_size=vocabulary), engine, version, gpus=width)
    assert ("heads/vocab-split" in reasons(found)) is refused


@pytest.mark.parametrize(("engine", "severity"), [
    (Engine.VLLM, Severity.ERROR), (Engine.SGLANG, Severity.ERROR), (Engine.TRTLLM, Severity.WARNING),
])  # fmt: skip
def test_the_feed_forward_width_must_divide(engine: Engine, severity: Severity) -> None:
    shape = a_shape(intermediate_size=11008)
    assert "heads/mlp-split" in reasons(asked(shape, engine, gpus=5), severity)
    assert "heads/mlp-split" not in reasons(asked(shape, engine, gpus=4), severity)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG, Engine.TRTLLM])
def test_experts_divide_by_width_unless_they_are_spread(engine: Engine) -> None:
    shape = a_shape(**EXPERTS)
    assert "heads/experts-split" in reasons(asked(shape, engine, gpus=5))
    assert "heads/experts-split" not in reasons(asked(shape, engine, gpus=4))
    assert "heads/experts-split" not in reasons(asked(shape, engine, gpus=16, expert_parallel=True))


@pytest.mark.parametrize(
    ("engine", "severity"), [(Engine.VLLM, None), (Engine.SGLANG, Severity.ERROR), (Engine.TRTLLM, Severity.WARNING)]
)
def test_spread_experts_may_be_uneven_in_vllm_alone(engine: Engine, severity: Severity | None) -> None:
    found = asked(a_shape(**EXPERTS | {"num_experts": 60}), engine, gpus=8, expert_parallel=True)
    spoke = {each.severity for each in found if each.reason.value == "heads/experts-split"}
    assert spoke == ({severity} if severity else set())


def test_data_parallel_ranks_multiply_the_width_of_experts_in_vllm() -> None:
    shape = a_shape(**EXPERTS | {"moe_intermediate_size": 1024})
    assert "heads/experts-split" not in reasons(asked(shape, gpus=8, data=4))
    assert "heads/experts-split" in reasons(asked(shape, gpus=12, data=3))


def test_more_ranks_than_experts_are_refused_where_the_model_file_says_so() -> None:
    few = EXPERTS | {"num_experts": 8}
    assert "heads/experts-split" in reasons(asked(a_shape(**few), gpus=16, expert_parallel=True))
    mixtral = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 8}
    assert "heads/experts-split" not in reasons(asked(a_shape(**mixtral), gpus=16))


def test_expert_parallel_needs_experts() -> None:
    assert "heads/experts-split" in reasons(asked(a_shape(), gpus=2, expert_parallel=True))
    assert "heads/experts-split" not in reasons(asked(a_shape(**EXPERTS), gpus=2, expert_parallel=True))


@pytest.mark.parametrize(
    ("figures", "width", "refused"),
    [
        (MAMBA2, 8, False),
        (MAMBA2, 16, True),  # 8 groups
        (MAMBA2 | {"n_groups": 1}, 16, False),  # one group is copied
        (MAMBA2, 3, True),  # 128 heads
        (DELTA, 8, False),
        (DELTA, 3, True),  # 32 value heads
        (DELTA, 12, True),
    ],
)
@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG])
def test_recurrent_heads_and_groups_divide(engine: Engine, figures: dict[str, Any], width: int, refused: bool) -> None:
    assert ("heads/recurrent-split" in reasons(asked(a_shape(**figures), engine, gpus=width))) is refused


def vision(architecture: str, **figures: Any) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "vision_config": {"hidden_size": ROUND, "intermediate_size": ROUND} | figures,
    }


def test_tower_heads_divide_or_the_tower_is_kept_whole() -> None:
    shape = a_shape(**vision("LlavaForConditionalGeneration", num_attention_heads=16))
    assert "heads/vision-split" in reasons(asked(shape, gpus=3))
    assert "heads/vision-split" not in reasons(asked(shape, gpus=4))
    assert "heads/vision-split" not in reasons(asked(shape, gpus=3, towers_whole=True))


@pytest.mark.parametrize(("version", "refused"), [("0.5.5", True), ("0.32.0", False)])
def test_internvl_keeps_a_tower_of_25_heads_whole_since_it_can(version: str, refused: bool) -> None:
    shape = a_shape(**vision("InternVLChatModel", num_attention_heads=25))
    assert ("heads/vision-split" in reasons(asked(shape, version=version, gpus=4))) is refused


def test_the_tower_of_another_engine_is_only_warned_of() -> None:
    shape = a_shape(**vision("LlavaForConditionalGeneration", num_attention_heads=16))
    found = asked(shape, Engine.SGLANG, gpus=3)
    assert "heads/vision-split" not in reasons(found)
    assert "heads/vision-split" in reasons(found, Severity.WARNING)


def test_pipeline_stages_need_a_layer_each() -> None:
    assert "heads/pipeline-layers" in reasons(asked(a_shape(), gpus=8, pipeline=8))
    assert "heads/pipeline-layers" not in reasons(asked(a_shape(), gpus=8, pipeline=4))


def test_some_models_have_no_pipeline_stages() -> None:
    zamba = a_shape(architectures=["Zamba2ForCausalLM"])
    assert "heads/pipeline-layers" in reasons(asked(zamba, gpus=2, pipeline=2))


def test_the_width_must_be_whole() -> None:
    found = asked(a_shape(), gpus=8, pipeline=3)
    assert reasons(found) == {"heads/parallel-product"}
    assert found[0].message == "8 GPUs do not divide by 3 pipeline stages x 1 data-parallel ranks"
    assert "heads/parallel-product" not in reasons(asked(a_shape(), gpus=8, nodes=3, pipeline=3))


def test_pipeline_stages_do_not_count_into_the_width() -> None:
    shape = a_shape(num_attention_heads=64, num_key_value_heads=8)
    assert "heads/attention-split" in reasons(asked(shape, gpus=12))
    assert "heads/attention-split" not in reasons(asked(shape, gpus=12, pipeline=3))


def test_all_reasons_come_at_once() -> None:
    shape = a_shape(num_attention_heads=64, num_key_value_heads=8, vocab_size=151936, intermediate_size=11008)
    assert reasons(asked(shape, gpus=6)) == {
        "heads/attention-split",
        "heads/kv-split",
        "heads/vocab-split",
        "heads/mlp-split",
    }


def test_llama_cpp_splits_layers_over_any_count() -> None:
    assert asked(a_shape(num_attention_heads=7, num_key_value_heads=7), Engine.LLAMACPP, "b11434", gpus=6) == ()


def test_comfyui_is_not_judged() -> None:
    assert asked(a_shape(num_attention_heads=7), Engine.COMFYUI, gpus=2) == ()
