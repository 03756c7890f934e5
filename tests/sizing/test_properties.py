"""What holds for every config, and that no JSON breaks a reader."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape, Unreadable
from reconciler.domain.tables import table
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.gguf_shape import read_gguf
from reconciler.sizing.heads import refusals
from reconciler.sizing.refusal import ParallelAsk
from tests.sizing.builders import a_config, a_shape, asked, reasons

MODELS = json.loads(Path(__file__).with_name("shapes.json").read_text("utf-8"))["models"]
ARCHITECTURES = sorted(table("architectures")["architectures"])
TYPES = sorted(table("config_defaults")["model_types"])
KEYS = sorted(
    {key for model in MODELS for key in model["config"]}
    | {key for row in table("config_defaults")["model_types"].values() for key in row.get("defaults", {})}
    | {"layer_types", "block_configs", "hybrid_override_pattern", "mlp_only_layers", "per_layer_config", "auto_map"}
)
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["re:(a+)+$", "re:.*", "model.layers.0*", "full_attention", "mamba", "M-*E", "awq", "fp8"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), inner, max_size=5)
    ),
    max_leaves=12,
)
QUANTIZATION = st.dictionaries(
    st.sampled_from(
        ["quant_method", "bits", "group_size", "weight_block_size", "config_groups", "ignore", "dynamic", "desc_act"]
    ),
    JUNK | st.sampled_from(["gptq", "compressed-tensors", "modelopt", 4, 128, -1, [128, 128], {"g": {"weights": {}}}]),
    max_size=6,
)
CONFIG = st.fixed_dictionaries(
    {},
    optional={
        "architectures": st.lists(st.sampled_from(ARCHITECTURES) | st.text(max_size=5), max_size=2) | JUNK,
        "model_type": st.sampled_from(TYPES) | JUNK,
        "hidden_size": st.integers(1, 9000) | JUNK,
        "num_hidden_layers": st.integers(1, 12) | JUNK,
        "num_attention_heads": st.integers(0, 64) | JUNK,
        "quantization_config": QUANTIZATION | JUNK,
        "vision_config": JUNK,
        "text_config": JUNK,
    },
).flatmap(lambda base: st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=6).map(lambda extra: extra | base))
ASK = st.builds(
    ParallelAsk,
    st.sampled_from(Engine),
    st.sampled_from(["0.32.0", "0.5.1", "", "0.1.x", "b11434"]),
    gpus=st.integers(1, 64),
    nodes=st.integers(1, 2),
    pipeline=st.integers(1, 4),
    data=st.integers(1, 4),
    expert_parallel=st.booleans(),
    context=st.none() | st.integers(1, 10**6),
    capability=st.none() | st.sampled_from([(7, 0), (8, 0), (9, 0)]),
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(config=CONFIG | JUNK, beside=QUANTIZATION | JUNK, ask=ASK)
def test_any_json_is_a_shape_or_says_why_not(config: Any, beside: Any, ask: ParallelAsk) -> None:
    shape = read_config(config, beside)
    if isinstance(shape, Unreadable):
        assert shape.because
        return
    assert isinstance(shape, Shape)
    for refusal in refusals(shape, ask):
        assert refusal.message
        assert refusal.decided_by


@settings(max_examples=200, deadline=None)
@given(
    metadata=st.dictionaries(
        st.sampled_from(["general.architecture", "llama.block_count", "llama.embedding_length",
                         "llama.attention.head_count", "llama.attention.head_count_kv", "llama.expert_count",
                         "llama.ssm.inner_size", "llama.attention.kv_lora_rank", "llama.attention.sliding_window"]),
        JUNK | st.integers(0, 4096) | st.just("llama"), max_size=9,
    ),
    ask=ASK,
)  # fmt: skip
def test_any_header_is_a_shape_or_says_why_not(metadata: dict[str, Any], ask: ParallelAsk) -> None:
    shape = read_gguf(metadata)
    if isinstance(shape, Shape):
        refusals(shape, ask)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a config: the keys on the way to each of its values."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, each in inside for place in places(each, (*path, key))]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), junk=JUNK, ask=ASK)
def test_one_wrong_value_anywhere_in_a_published_config_breaks_nothing(
    data: st.DataObject, junk: Any, ask: ParallelAsk
) -> None:
    config = copy.deepcopy(data.draw(st.sampled_from(MODELS))["config"])
    config.setdefault("rope_scaling", {"rope_type": "yarn", "factor": 4.0})
    *way, last = data.draw(st.sampled_from(places(config)))
    inside = config
    for key in way:
        inside = inside[key]
    inside[last] = junk
    shape = read_config(config)
    if isinstance(shape, Shape):
        refusals(shape, ask)


def shuffled(value: Any, random: Any) -> Any:
    if not isinstance(value, dict):
        return value
    keys = list(value)
    random.shuffle(keys)
    return {key: shuffled(value[key], random) for key in keys}


@settings(max_examples=60, deadline=None)
@given(model=st.sampled_from(MODELS), ask=ASK, random=st.randoms(use_true_random=False))
def test_the_order_of_keys_means_nothing(model: dict[str, Any], ask: ParallelAsk, random: Any) -> None:
    before, after = read_config(model["config"]), read_config(shuffled(model["config"], random))
    assert before == after
    assert isinstance(before, Shape)
    assert isinstance(after, Shape)
    assert refusals(before, ask) == refusals(after, ask)


FIGURES = st.fixed_dictionaries({
    "num_attention_heads": st.integers(1, 128),
    "num_key_value_heads": st.integers(1, 128),
    "intermediate_size": st.integers(1, 40_000),
    "vocab_size": st.integers(1, 300_000),
})  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(figures=FIGURES, engine=st.sampled_from([Engine.VLLM, Engine.SGLANG, Engine.TRTLLM]))
def test_one_gpu_is_never_refused_for_heads(figures: dict[str, int], engine: Engine) -> None:
    figures["hidden_size"] = figures["num_attention_heads"] * 128
    assert not {each for each in reasons(asked(a_shape(**figures), engine)) if each.startswith("heads/")}


@settings(max_examples=150, deadline=None)
@given(figures=FIGURES, width=st.integers(1, 16), factor=st.integers(2, 4))
def test_what_divides_by_a_width_divides_by_its_divisors(figures: dict[str, int], width: int, factor: int) -> None:
    shape = a_shape(**figures)
    wide, narrow = reasons(asked(shape, gpus=width * factor)), reasons(asked(shape, gpus=width))
    for rule in ("heads/attention-split", "heads/vocab-split", "heads/mlp-split"):
        assert rule not in narrow or rule in wide


@settings(max_examples=100, deadline=None)
@given(model=st.sampled_from(MODELS), width=st.integers(1, 32))
def test_spreading_experts_never_cuts_them(model: dict[str, Any], width: int) -> None:
    shape = read_config(model["config"])
    assert isinstance(shape, Shape)
    found = refusals(shape, ParallelAsk(Engine.VLLM, "0.32.0", gpus=width, expert_parallel=True))
    if shape.architecture != "GptOssForCausalLM":  # its file wants the width to divide in any case
        assert not any(each.decided_by.endswith(".experts") for each in found)


@settings(max_examples=100, deadline=None)
@given(figures=FIGURES, width=st.integers(1, 16))
def test_one_scale_a_matrix_refuses_nothing_more(figures: dict[str, int], width: int) -> None:
    plain = read_config(a_config(**figures))
    stored = read_config(
        a_config(**figures, quantization_config={"quant_method": "fp8", "activation_scheme": "static"})
    )
    assert isinstance(plain, Shape)
    assert isinstance(stored, Shape)
    assert asked(plain, gpus=width) == asked(stored, gpus=width)


def test_a_warning_alone_refuses_nothing() -> None:
    found = asked(a_shape(num_key_value_heads=8), gpus=16)
    assert {each.severity for each in found} == {Severity.WARNING}
