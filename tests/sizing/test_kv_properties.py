"""What holds for every cache: more tokens never take less, more ranks never more, and what fits is what is promised."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape
from reconciler.engines.counting import counting_rules
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.kv import KvCache, kv_cache
from reconciler.sizing.kv_plan import ANY_LENGTH
from reconciler.sizing.memory_ask import MemoryAsk

MODELS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("kv_cases.json").read_text("utf-8"))["models"]
VERSIONS = [
    (Engine.VLLM, "0.9.0"), (Engine.VLLM, "0.19.0"), (Engine.VLLM, "0.25.0"), (Engine.VLLM, "0.32.0"),
    (Engine.SGLANG, "0.5.23"), (Engine.TRTLLM, "1.2.1"),
]  # fmt: skip
KINDS = [None, "auto", "fp8", "fp8_e5m2", "nvfp4", "int8_per_token_head", "int4_per_token_head", "turboquant_k8v4"]
LARGEST_STEP = 20_000
"""No block of these models holds as many tokens."""


@cache
def shape_of(index: int) -> Shape:
    shape = read_config(MODELS[index]["config"], MODELS[index].get("quant_config"))
    assert isinstance(shape, Shape)
    return shape


SHAPES = st.integers(0, len(MODELS) - 1).map(shape_of)
RULES = st.sampled_from(VERSIONS).map(lambda pair: counting_rules(*pair))
ASKS = st.builds(
    MemoryAsk,
    tensor=st.sampled_from([1, 2, 4, 8]),
    context=st.integers(1, 300_000),
    pipeline=st.integers(1, 5),
    task=st.sampled_from([Task.GENERATE, Task.EMBED]),
    dtype=st.sampled_from([None, "bfloat16", "float32"]),
    kv_cache_dtype=st.sampled_from(KINDS),
    batch_tokens=st.none() | st.integers(1, 20_000),
    block_tokens=st.sampled_from([None, 16, 32, 64]),
    decode_context=st.sampled_from([1, 2]),
    full_windows=st.booleans(),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every number in a config: the keys on the way to it."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * (type(value) is int) + [place for key, each in inside for place in places(each, (*path, key))]


def made(shape: Shape, ask: MemoryAsk, rules: Any) -> KvCache:
    found = kv_cache(shape, ask, rules)
    assume(found is not None)
    assert found is not None
    return found


@settings(max_examples=300, deadline=None)
@given(shape=SHAPES, ask=ASKS, rules=RULES, tokens=st.integers(1, 200_000), more=st.integers(0, 50_000))
def test_more_tokens_never_take_less(shape: Shape, ask: MemoryAsk, rules: Any, tokens: int, more: int) -> None:
    found = made(shape, ask, rules)
    assert 0 < found.request_bytes(tokens) <= found.request_bytes(tokens + more)
    assert found.concurrency(2**40, tokens) >= found.concurrency(2**40, tokens + more)


@settings(max_examples=300, deadline=None)
@given(shape=SHAPES, ask=ASKS, rules=RULES, pool=st.integers(0, 2**38))
def test_the_longest_request_fits_and_a_longer_one_does_not(
    shape: Shape, ask: MemoryAsk, rules: Any, pool: int
) -> None:
    found = made(shape, ask, rules)
    longest = found.longest(pool)
    if longest:
        assert found.request_bytes(longest) + found.reserved_bytes <= pool
    if longest < ANY_LENGTH:
        assert found.request_bytes(longest + LARGEST_STEP) + found.reserved_bytes > pool - found.reserved_bytes


@settings(max_examples=300, deadline=None)
@given(shape=SHAPES, ask=ASKS, rules=RULES, pool=st.integers(0, 2**38), more=st.integers(0, 2**36))
def test_a_larger_pool_holds_no_less(shape: Shape, ask: MemoryAsk, rules: Any, pool: int, more: int) -> None:
    found = made(shape, ask, rules)
    assert found.longest(pool) <= found.longest(pool + more)
    if rules.engine is not Engine.SGLANG or not found.state_bytes:  # a slot more takes its bytes from the tokens
        assert found.tokens_in(pool) <= found.tokens_in(pool + more)
        assert found.concurrency(pool, 1000) <= found.concurrency(pool + more, 1000)


@settings(max_examples=300, deadline=None)
@given(shape=SHAPES, ask=ASKS, rules=RULES, pool=st.integers(0, 2**38), tokens=st.integers(1, 200_000))
def test_what_fits_is_at_least_one_request(shape: Shape, ask: MemoryAsk, rules: Any, pool: int, tokens: int) -> None:
    found = made(shape, ask, rules)
    if found.longest(pool) >= tokens:
        assert found.request_bytes(tokens) <= pool
        assert found.concurrency(pool, tokens) >= 1


@settings(max_examples=200, deadline=None)
@given(shape=SHAPES, ask=ASKS, rules=RULES, factor=st.sampled_from([2, 4]))
def test_more_ranks_never_hold_more_each(shape: Shape, ask: MemoryAsk, rules: Any, factor: int) -> None:
    narrow, wide = made(shape, ask, rules), made(shape, replace(ask, tensor=ask.tensor * factor), rules)
    assert wide.bytes_per_token <= narrow.bytes_per_token
    assert wide.state_bytes <= narrow.state_bytes
    deep = made(shape, replace(ask, pipeline=ask.pipeline * factor), rules)
    assert deep.bytes_per_token <= narrow.bytes_per_token
    assert deep.state_bytes <= narrow.state_bytes


@settings(max_examples=200, deadline=None)
@given(shape=SHAPES, ask=ASKS, rules=RULES, tokens=st.integers(1, 200_000))
def test_filling_up_groups_only_adds(shape: Shape, ask: MemoryAsk, rules: Any, tokens: int) -> None:
    found = made(shape, ask, rules)
    if ask.pipeline == 1 and rules.engine is Engine.VLLM:
        assert found.unpadded_bytes(tokens) <= found.request_bytes(tokens) + found.reserved_bytes * 8


@settings(max_examples=400, deadline=None)
@given(data=st.data(), number=st.integers(0, 70_000) | st.integers(0, 2**40), ask=ASKS, rules=RULES)
def test_any_figures_give_an_answer(data: st.DataObject, number: int, ask: MemoryAsk, rules: Any) -> None:
    model = data.draw(st.sampled_from(MODELS))
    config = copy.deepcopy(model["config"])
    *way, last = data.draw(st.sampled_from(places(config)))
    inside = config
    for key in way:
        inside = inside[key]
    inside[last] = number
    shape = read_config(config, model.get("quant_config"))
    assume(isinstance(shape, Shape))
    assert isinstance(shape, Shape)
    found = kv_cache(shape, ask, rules)
    if found is not None:
        for pool in (0, 2**33):
            assert found.tokens_in(pool) >= 0
            assert 0 <= found.longest(pool) <= ANY_LENGTH
            assert found.concurrency(pool, 1000) >= 0
            assert found.request_bytes(1000) >= 0
