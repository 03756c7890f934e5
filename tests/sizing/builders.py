"""Configs that say only what matters to a test; the rest divides by every small width."""

from __future__ import annotations

from typing import Any

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.heads import refusals
from reconciler.sizing.refusal import ParallelAsk, Refusal

ROUND = 720_720
"""Divides by 1 to 16."""


def a_config(**figures: Any) -> dict[str, Any]:
    """A plain Llama whose unstated figures divide by 1 to 16."""
    plain = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": ROUND * 128,
        "head_dim": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": ROUND,
        "num_key_value_heads": ROUND,
        "intermediate_size": ROUND * 128,
        "vocab_size": ROUND * 64,
        "max_position_embeddings": 8192,
    }
    return plain | figures


def a_shape(**figures: Any) -> Shape:
    """Its shape; fails when there is none."""
    shape = read_config(a_config(**figures))
    assert isinstance(shape, Shape)
    return shape


def asked(shape: Shape, engine: Engine = Engine.VLLM, version: str = "0.32.0", **ask: Any) -> tuple[Refusal, ...]:
    """All refusals for one question."""
    return refusals(shape, ParallelAsk(engine, version, **ask))


def reasons(found: tuple[Refusal, ...], severity: Severity = Severity.ERROR) -> set[str]:
    """The rules that spoke with this severity."""
    return {each.reason.value for each in found if each.severity is severity}
