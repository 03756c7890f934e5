"""What an engine version takes at no width at all."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.sizing.capability import capability
from reconciler.sizing.refusal import version_key
from tests.sizing.builders import a_shape, asked, reasons

RULE = "inventory/unsupported"


@pytest.mark.parametrize(
    ("architecture", "version", "severity"),
    [
        ("LlamaForCausalLM", "0.32.0", None),
        ("BaichuanForCausalLM", "0.32.0", Severity.ERROR),
        ("BaichuanForCausalLM", "0.23.0", None),
        ("MPTForCausalLM", "0.28.1", Severity.ERROR),
        ("BartForConditionalGeneration", "0.32.0", Severity.ERROR),  # with a plugin only
        ("OlmoForCausalLM", "0.32.0", None),  # through transformers
        ("Step3p7FlashForCausalLM", "0.32.0", Severity.ERROR),  # a known family, another name
        ("Step3p7FlashForCausalLM", "0.40.0", Severity.WARNING),  # our registry is of 0.32
        ("FancyNovelForCausalLM", "0.32.0", Severity.WARNING),
    ],
)
def test_architectures_of_vllm(architecture: str, version: str, severity: Severity | None) -> None:
    found = asked(a_shape(architectures=[architecture], model_type=""), version=version)
    assert {each.severity for each in found if each.reason.value == RULE} == ({severity} if severity else set())


def test_a_dropped_architecture_names_the_last_version_that_took_it() -> None:
    found = asked(a_shape(architectures=["QWenLMHeadModel"], model_type="qwen"))
    assert found[0].message == "vllm 0.32.0 does not take QWenLMHeadModel: 0.23.0 was the last to"


def test_a_name_of_a_known_family_is_pointed_to_the_nearest() -> None:
    found = asked(a_shape(architectures=["MiniMaxM3ForCausalLM"], model_type=""))
    assert found[0].hint is not None
    assert "MiniMaxM3" in found[0].hint


def test_code_of_the_models_own_makes_an_unknown_name_possible() -> None:
    shape = a_shape(architectures=["Step3p7FlashForCausalLM"], model_type="", auto_map={"AutoConfig": "x.Y"})
    assert RULE not in reasons(asked(shape))


@pytest.mark.parametrize(("model_type", "refused"), [("llama", True), ("mistral", False)])
def test_some_config_classes_want_a_hidden_size_that_divides_by_the_heads(model_type: str, refused: bool) -> None:
    shape = a_shape(model_type=model_type, hidden_size=4100, num_attention_heads=32, num_key_value_heads=8)
    assert (RULE in reasons(asked(shape))) is refused


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}


@pytest.mark.parametrize(
    ("storage", "version", "refused"),
    [
        (GPTQ, "0.32.0", False),
        (GPTQ | {"desc_act": True}, "0.32.0", True),
        (GPTQ | {"desc_act": True, "group_size": -1}, "0.32.0", False),
        (GPTQ | {"desc_act": True}, "0.19.0", False),
        (GPTQ | {"bits": 3}, "0.32.0", True),
        (GPTQ | {"sym": False}, "0.32.0", True),
        (GPTQ | {"group_size": 256}, "0.32.0", True),
        (AWQ, "0.32.0", False),
        (AWQ | {"bits": 8}, "0.32.0", True),
        ({"quant_method": "bitsandbytes"}, "0.32.0", True),
        ({"quant_method": "bitsandbytes"}, "0.10.0", False),
        ({"quant_method": "fbgemm_fp8"}, "0.32.0", True),
        ({"quant_method": "quark"}, "0.32.0", False),
    ],
)
def test_methods_and_options_of_quantization(storage: dict[str, Any], version: str, refused: bool) -> None:
    found = asked(a_shape(quantization_config=storage), version=version)
    assert (RULE in reasons(found)) is refused


@pytest.mark.parametrize(("gpu_class", "refused"), [("v100-32gb", True), ("t4", False), ("h100-80gb", False)])
def test_fp8_needs_a_generation(gpu_class: str, refused: bool) -> None:
    shape = a_shape(quantization_config={"quant_method": "fp8", "activation_scheme": "dynamic"})
    assert (RULE in reasons(asked(shape, capability=capability(gpu_class)))) is refused


@pytest.mark.parametrize(("gpu_class", "refused"), [("t4", True), ("a10", False)])
def test_bfloat16_needs_a_generation(gpu_class: str, refused: bool) -> None:
    assert (RULE in reasons(asked(a_shape(), capability=capability(gpu_class), dtype="bfloat16"))) is refused


def test_capabilities() -> None:
    assert capability("h100-80gb") == (9, 0)
    assert capability("h100-80gb/1g.10gb") == (9, 0)
    assert capability("mi300x") is None


@pytest.mark.parametrize(("head_dim", "refused"), [(100, True), (128, False)])
def test_tensorrt_llm_wants_head_sizes_in_eights(head_dim: int, refused: bool) -> None:
    assert (RULE in reasons(asked(a_shape(head_dim=head_dim), Engine.TRTLLM, "1.2.1"))) is refused


@pytest.mark.parametrize(
    ("version", "key"),
    [("0.32.0", (0, 32, 0)), ("v0.7.x", (0, 7)), ("1.2.0rc4", (1, 2, 0)), ("b11434", (11434,)), ("", ()), ("x", ())],
)
def test_versions_compare_by_their_numbers(version: str, key: tuple[int, ...]) -> None:
    assert version_key(version) == key
