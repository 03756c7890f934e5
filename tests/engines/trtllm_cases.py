"""Declarations of TensorRT-LLM replicas with the node's side of each, by what is special about them; each a golden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Engine
from tests.engines import conformance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration

OLD, RECENT = "1.2.1", "1.4.0"
"""The last release that cannot be told its name and KV cache type by flags, and one that can."""


def a_declaration(**fields: Any) -> Declaration:
    """One H100, a context of 32,768 tokens."""
    usual: dict[str, Any] = {"model": "llama-70b", "source": "file:/weights/llama", "context": 32768}
    return conformance.a_declaration(Engine.TRTLLM, **usual | fields)


TWO_NODES: dict[str, Any] = {
    "host": "10.0.0.1",
    "addresses": ("10.0.0.1", "10.0.0.2"),
    "command": ("/opt/trt/bin/trtllm-serve",),
}

CASES: Mapping[str, tuple[Declaration, Mapping[str, Any]]] = {
    "one-gpu": (a_declaration(version=RECENT, max_concurrency=64), {}),
    "one-gpu-1.2": (a_declaration(version=OLD, max_concurrency=64), {}),
    "one-gpu-args": (a_declaration(memory_share=0.8, args=("--max_num_tokens", "4096")), {}),
    "one-gpu-no-directory": (a_declaration(), {"directory": None, "cache_dir": None}),
    "four-gpus": (a_declaration(gpus=4), {}),
    "pipeline": (a_declaration(gpus=8, pipeline_parallel=2), {}),
    "expert-parallel": (a_declaration(gpus=8, expert_parallel=True), {}),
    "quantized-cache": (a_declaration(version=RECENT, kv_cache_dtype="fp8"), {}),
    "quantized-cache-1.2": (a_declaration(version=OLD, kv_cache_dtype="fp8", memory_share=0.8), {}),
    "dtype": (a_declaration(dtype="bfloat16"), {}),
    "two-nodes-rank-0": (a_declaration(gpus=8, nodes=2, version=RECENT), TWO_NODES),
    "two-nodes-rank-1": (a_declaration(gpus=8, nodes=2, version=RECENT), TWO_NODES | {"host": "10.0.0.2", "rank": 1}),
    "two-nodes-pipeline-ipv6-rank-1": (
        a_declaration(gpus=4, nodes=2, pipeline_parallel=2),
        TWO_NODES | {"host": "fd00::2", "addresses": ("fd00::1", "fd00::2"), "rank": 1},
    ),
    "three-nodes-named-rank-0": (
        a_declaration(gpus=2, nodes=3, version=OLD),
        TWO_NODES | {"addresses": ("gpu-01.rack", "gpu-02.rack", "gpu-03.rack"), "command": ("trtllm-serve",)},
    ),
}
