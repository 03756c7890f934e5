"""Trained lengths, and questions for more."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape
from reconciler.sizing.config_shape import read_config
from tests.sizing.builders import a_config, a_shape, asked, reasons

RULE = "context/beyond-trained"


@pytest.mark.parametrize(
    ("figures", "longest"),
    [
        ({"max_position_embeddings": 32768}, 32768),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16384),
        ({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "dynamic", "factor": 2}}, 8192),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 131072),
        ({"max_position_embeddings": 163840, "rope_scaling": {"type": "yarn", "factor": 40}}, 163840),
        ({"max_position_embeddings": 131072, "rope_scaling": {"type": "longrope", "factor": 32}}, 131072),
        ({"max_position_embeddings": 4096, "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0}}}, 32768),
        ({"max_position_embeddings": None, "seq_length": 2048}, 2048),
        ({"max_position_embeddings": 8192, "max_seq_len": 2048}, 2048),
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": "4"}}, 4096),
        ({"max_position_embeddings": 4096, "rope_scaling": "linear"}, 4096),
    ],
)  # fmt: skip
def test_the_trained_length_with_scaling(figures: dict[str, Any], longest: int) -> None:
    shape = a_shape(**figures)
    assert shape.trained is not None
    assert shape.trained.longest == longest


def test_gemma_3_has_its_scaling_counted_already() -> None:
    shape = a_shape(
        architectures=["Gemma3ForCausalLM"],
        model_type="gemma3_text",
        max_position_embeddings=131072,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
    )
    assert shape.trained is not None
    assert shape.trained.longest == 131072


def test_no_key_is_no_limit() -> None:
    shape = a_shape(architectures=["FancyForCausalLM"], model_type="", max_position_embeddings=None)
    assert shape.trained is None
    assert RULE not in reasons(asked(shape, context=10**6))


@pytest.mark.parametrize(("position", "longest"), [("absolute", 512), ("rotary", 8192)])
def test_the_tokenizers_length_counts_for_absolute_positions(position: str, longest: int) -> None:
    config = a_config(position_embedding_type=position)
    shape = read_config(config, model_max_length=512.0)
    assert isinstance(shape, Shape)
    assert shape.trained is not None
    assert shape.trained.longest == longest


@pytest.mark.parametrize(
    ("engine", "severity"),
    [
        (Engine.VLLM, Severity.ERROR),
        (Engine.SGLANG, Severity.ERROR),
        (Engine.TRTLLM, Severity.WARNING),
        (Engine.LLAMACPP, Severity.WARNING),
    ],
)
def test_more_than_trained(engine: Engine, severity: Severity) -> None:
    shape = a_shape(max_position_embeddings=8192)
    assert RULE not in reasons(asked(shape, engine, context=8192), severity)
    found = asked(shape, engine, context=8193)
    assert RULE in reasons(found, severity)
    message = next(each.message for each in found if each.reason.value == RULE)
    assert message == "8,193 tokens are more than the 8,192 that the model was trained for (max_position_embeddings)"


def test_the_override_makes_it_a_warning() -> None:
    found = asked(a_shape(max_position_embeddings=8192), context=10000, longer_context=True)
    assert RULE in reasons(found, Severity.WARNING)
    assert RULE not in reasons(found)


@pytest.mark.parametrize("kind", [["yarn"], 4, True])
def test_a_rope_type_that_is_not_text_is_named(kind: Any) -> None:
    shape = a_shape(rope_scaling={"rope_type": kind, "factor": 4.0})
    assert shape.trained is not None
    assert shape.trained.longest == 8192
    assert "the RoPE type is not text: its factor is counted as 1" in shape.unknown
