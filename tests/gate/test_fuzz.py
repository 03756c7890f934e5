"""Whatever a lock and arguments hold: findings, never an exception, at once and in little memory."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.gate.phrases import LONGEST
from tests.gate.tree import judged

SHAPES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("shapes.json").read_text("utf-8"))["shapes"]
LLAMA = SHAPES["llama-8b"]
KEYS = sorted({key for config in SHAPES.values() for key in config} | {"text_config", "vision_config", "layer_types"})
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
CONFIGS = st.builds(
    lambda shape, changes: {**SHAPES[shape], **changes},
    st.sampled_from(sorted(SHAPES)),
    st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=4),
)
PIECES = [
    *("--tensor-parallel-size", "-tp=4", "--gpu-mem", "--context", "--swap-space", "-c", "--threads=4", "-dcp", "-O"),
    *("--hf-overrides", "--hf-overrides.a.b.c", "--hf-overrides.a", '{"num_attention_heads": [[]]}', "--", "=", "-"),
    *("--attn-dp-size", "--attn-cp-size", "--enable-eplb", "--eplb-config.num_redundant_experts"),
    *("--ep-num-redundant-experts", "--json-model-override-args", "--mm-encoder-tp-mode", "data"),
    *("0", "1", "-3", "99999999"),
]
WORDS = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=6)


def files(config: Any, args: list[str] | None = None, count: int = 8) -> dict[str, str]:
    """One model on three engines, with a lock that holds this config."""
    entry = {"source": "hf:o/m@v1", "revision": "v1", "format": "safetensors", "weight_bytes": 1, "config": config}
    written = json.dumps(args or [])
    profiles = [
        f"  - {{name: {engine}, engine: {engine}, gpu_class: h100-80gb, gpus: 6, args: {written}}}\n"
        for engine in ("vllm", "sglang", "llamacpp")
    ]
    return {
        "cluster.yaml": "name: prod\n",
        "nodes/h100.yaml": f"pool: h100\ngpus: {{class: h100-80gb, count: {count}}}\nnodes: [gpu-01]\n",
        "models/m.yaml": f"name: m\nsource: hf:o/m@v1\ncontext: 8192\nprofiles:\n{''.join(profiles)}",
        "locks/m.json": json.dumps({"sources": [entry]}),
    }


@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])
@given(CONFIGS | JUNK, WORDS)
def test_any_config_and_any_arguments_are_findings(config: Any, args: list[str]) -> None:
    report = judged(files(config, args))

    assert report.model_dump_json()
    for finding in report.findings:
        assert finding.message.isprintable()
        assert len(finding.message) <= LONGEST + 3
        assert finding.line is None or finding.line >= 1


def stored(**quantization: Any) -> dict[str, Any]:
    return {**LLAMA, "quantization_config": quantization}


PACKED = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}}
HOSTILE = {
    "a thousand million layers": LLAMA | {"num_hidden_layers": 10**9},
    "heads beyond any number": LLAMA | {"num_attention_heads": 10**17, "num_key_value_heads": 10**17 - 1},
    "a kind for each layer": LLAMA | {"num_hidden_layers": 9_000, "layer_types": [f"k{each}" for each in range(9_000)]},
    "a pattern of a hundred thousand letters": SHAPES["nemotron-h-8b"] | {"hybrid_override_pattern": "M-*E" * 25_000},
    "patterns that repeat repeats": stored(
        quant_method="compressed-tensors",
        config_groups={"g": PACKED | {"targets": ["re:(x+x+)+y", "re:(.*a){20}$", "re:" + "(.*)" * 30]}},
        ignore=["re:" + "a?" * 30 + "a" * 30],
    ),
    "nine thousand patterns": stored(
        quant_method="compressed-tensors",
        config_groups={"g": PACKED},
        ignore=[f"re:.*{each}.*b.*" for each in range(9_000)],
    ),
    "six hundred ways of storing": stored(
        quant_method="compressed-tensors",
        config_groups={f"g{each}": PACKED | {"targets": [f"re:.*x{each}$"]} for each in range(600)},
    ),
    "nine thousand stars": stored(
        quant_method="modelopt", quant_algo="FP8", exclude_modules=[f"*a{each}*b*c*" for each in range(9_000)]
    ),
    "a GGUF with heads for each of many layers": SHAPES["llama-8b-gguf"]
    | {"llama.block_count": 20_000, "llama.attention.head_count_kv": [each % 8 for each in range(20_000)]},
    "a tower of a thousand million layers": SHAPES["qwen-2.5-vl-7b"]
    | {"vision_config": {"depth": 10**9, "num_heads": 10**17, "hidden_size": 7, "intermediate_size": 11}},
    "configs in configs": {"text_config": {"text_config": {"text_config": LLAMA}}},
    "a name of a hundred thousand letters": LLAMA | {"architectures": ["A" * 100_000]},
    "twenty thousand names": LLAMA | {"architectures": [f"A{each}" for each in range(20_000)]},
    "escapes for a terminal": LLAMA
    | {"architectures": ["\u001b[2J\u202e\n"], "quantization_config": {"quant_method": "\r"}},
    "dense layers by number": SHAPES["qwen-3-30b-a3b"] | {"mlp_only_layers": list(range(20_000))},
}


@pytest.mark.parametrize("config", HOSTILE.values(), ids=HOSTILE)
def test_hostile_configs_are_judged_at_once(config: dict[str, Any]) -> None:
    tree = files(config)
    started = time.process_time()
    report = judged(tree)
    seconds = time.process_time() - started
    tracemalloc.start()
    judged(tree)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert report.findings
    assert all(finding.message.isprintable() and len(finding.message) <= LONGEST + 3 for finding in report.findings)
    assert seconds < 1, "processor time, so that a busy machine changes little"
    assert peak < 100 * 2**20
