"""The cache of published models against what vLLM 0.32.0's own code says of them."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.shape import Shape
from reconciler.engines.counting import counting_rules
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.kv import KvCache, kv_cache
from reconciler.sizing.memory_ask import MemoryAsk

MODELS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("kv_cases.json").read_text("utf-8"))["models"]
CASES = [(model, row) for model in MODELS for row in model["rows"]]
POOL = 8 * 2**30


def name(model: dict[str, Any], row: dict[str, Any]) -> str:
    words = (model["model"], row["tp"], row["length"], row.get("kv_cache_dtype"), row.get("block_option"))
    return "-".join(str(each) for each in words if each)


def cache_of(model: dict[str, Any], row: dict[str, Any]) -> KvCache | None:
    shape = read_config(model["config"], model.get("quant_config"))
    assert isinstance(shape, Shape)
    ask = MemoryAsk(
        tensor=row["tp"],
        context=row["length"],
        task=Task.EMBED if model.get("pooling") else Task.GENERATE,
        kv_cache_dtype=row.get("kv_cache_dtype"),
        batch_tokens=row.get("batch", 2048),
        block_tokens=row.get("block_option"),
    )
    return kv_cache(shape, ask, counting_rules(Engine.VLLM, "0.32.0"))


@pytest.mark.parametrize(("model", "row"), CASES, ids=[name(*each) for each in CASES])
def test_the_cache_is_what_vllm_says(model: dict[str, Any], row: dict[str, Any]) -> None:
    cache = cache_of(model, row)
    if "request_bytes" not in row:
        assert cache is None
        return
    assert cache is not None
    length = row["length"]
    assert cache.bytes_per_token == ceil(row.get("bytes_per_token", cache.bytes_per_token))
    assert cache.state_bytes == row.get("state_bytes", 0)
    assert cache.unpadded_bytes(length) == row["request_bytes"]
    assert cache.block_tokens == row.get("block", cache.block_tokens)
    if "at_once" in row:
        assert POOL // cache.reserved_bytes == row["blocks_in_8_gib"]
        assert round(cache.concurrency(POOL, length), 3) == row["at_once"]
        assert cache.longest(POOL) >= length
    if "longest" in row:
        assert cache.longest(POOL) == row["longest"]
        assert abs(cache.request_bytes(length) / 2**30 - row["needed_gib"]) < 0.0051  # printed with two decimals


def test_a_length_of_the_pool_is_printed_as_requests_times_length() -> None:
    model = next(each for each in MODELS if each["model"] == "Qwen/Qwen3-Next-80B-A3B-Instruct")
    row = next(each for each in model["rows"] if "at_once" in each)
    cache = cache_of(model, row)
    assert cache is not None
    assert cache.tokens_in(POOL) == int(cache.concurrency(POOL, row["length"]) * row["length"])
