"""Figures of real models and the widths that vLLM 0.32.0 took and refused on a Hopper card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.heads import refusals
from reconciler.sizing.refusal import ParallelAsk

MODELS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("shapes.json").read_text("utf-8"))["models"]
RULES = {
    "attention_heads": "heads/attention-split",
    "kv_heads": "heads/kv-split",
    "vocab": "heads/vocab-split",
    "mlp": "heads/mlp-split",
    "experts": "heads/experts-split",
    "quant_group": "heads/quant-group",
    "fp8_block": "heads/quant-group",
    "vision": "heads/vision-split",
    "recurrent": "heads/recurrent-split",
    "other": "inventory/unsupported",
}
ACCEPTED = [
    (model, width, spread)
    for model in MODELS
    for key, spread in (("accepted", False), ("accepted_expert_parallel", True))
    for width in model.get(key, ())
]
REFUSED = [
    (model, int(width), kind, spread)
    for model in MODELS
    for key, spread in (("refused", False), ("refused_expert_parallel", True))
    for width, kind in model.get(key, {}).items()
]


def errors(model: dict[str, Any], width: int, *, spread: bool) -> dict[str, str]:
    shape = read_config(model["config"], model.get("quant_config"))
    assert isinstance(shape, Shape)
    ask = ParallelAsk(Engine.VLLM, "0.32.0", gpus=width, expert_parallel=spread, capability=(9, 0))
    return {each.reason.value: each.message for each in refusals(shape, ask) if each.severity is Severity.ERROR}


def name(model: dict[str, Any], width: int, *rest: object) -> str:
    return "-".join(str(each) for each in (model["model"], model["storage"], width, *rest))


@pytest.mark.parametrize(("model", "width", "spread"), ACCEPTED, ids=[name(*each) for each in ACCEPTED])
def test_a_width_that_vllm_takes_is_not_refused(model: dict[str, Any], width: int, spread: bool) -> None:
    assert errors(model, width, spread=spread) == {}


@pytest.mark.parametrize(("model", "width", "kind", "spread"), REFUSED, ids=[name(*each) for each in REFUSED])
def test_a_width_that_vllm_refuses_is_refused_by_its_rule(
    model: dict[str, Any], width: int, kind: str, spread: bool
) -> None:
    assert RULES[kind] in errors(model, width, spread=spread)
