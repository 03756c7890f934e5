"""Declarations of SGLang replicas with the node's side of each, by what is special about them; each has a golden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Engine
from reconciler.engines.base import Vendor
from tests.engines import conformance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration

ADAPTERS = conformance.ADAPTERS


def a_declaration(**fields: Any) -> Declaration:
    """One H100, a context of 32,768 tokens."""
    usual: dict[str, Any] = {"model": "llama-70b", "source": "file:/weights/llama", "context": 32768}
    return conformance.a_declaration(Engine.SGLANG, **usual | fields)


DIRECTORY = "/state/agent/launches/llama-70b-0@1a2b3c4d"
"""Of the replica alone, where its launch has files."""

_TWO_NODES = {"addresses": ("10.0.0.1", "10.0.0.2"), "host": "10.0.0.1"}
_SECOND = {"rank": 1, "host": "10.0.0.2"}
_OVER_NODES = a_declaration(gpus=8, nodes=2)
_OVER_NODES_WITH_KEY = a_declaration(gpus=8, nodes=2, env={"SGLANG_API_KEY": {"secret": "key"}})

CASES: Mapping[str, tuple[Declaration, Mapping[str, Any]]] = {
    "one-gpu": (a_declaration(aliases=("chat", "default"), max_concurrency=128), {}),
    "one-gpu-args": (a_declaration(memory_share=0.85, args=("--disable-cuda-graph", "--page-size", "16")), {}),
    "one-gpu-no-cache": (a_declaration(), {"cache_dir": None}),
    "one-gpu-key": (a_declaration(env={"SGLANG_API_KEY": {"secret": "key"}}), {"directory": DIRECTORY}),
    "two-nodes-key-rank-1": (_OVER_NODES_WITH_KEY, _TWO_NODES | _SECOND | {"directory": DIRECTORY}),
    "one-amd-gpu": (a_declaration(gpu_class="mi300x"), {"vendor": Vendor.AMD}),
    "one-gaudi": (a_declaration(gpu_class="gaudi3"), {"vendor": Vendor.INTEL}),
    "four-gpus": (a_declaration(gpus=4), {"numa_nodes": (0, 0, 1, 1)}),
    "pipeline": (a_declaration(gpus=8, pipeline_parallel=2), {}),
    "data-parallel": (a_declaration(gpus=8, data_parallel=2), {}),
    "expert-parallel": (a_declaration(gpus=8, expert_parallel=True), {}),
    "two-nodes-rank-0": (_OVER_NODES, _TWO_NODES),
    "two-nodes-rank-1": (_OVER_NODES, _TWO_NODES | _SECOND),
    "two-nodes-pipeline-ipv6-rank-1": (
        a_declaration(gpus=8, nodes=2, pipeline_parallel=2),
        {"addresses": ("fd00::1", "fd00::2"), "rank": 1, "host": "fd00::2"},
    ),
    "quantized": (a_declaration(quantization="fp8", dtype="bfloat16", kv_cache_dtype="fp8_e4m3"), {}),
    "adapters": (a_declaration(adapters=ADAPTERS), {"adapter_ranks": {"sql": 8, "chat": 24}}),
    "adapters-data-parallel": (a_declaration(gpus=2, data_parallel=2, adapters=ADAPTERS), {}),
    "embed": (a_declaration(task="embed", context=8192), {}),
    "rerank": (a_declaration(task="rerank", context=8192), {}),
    "transcribe": (a_declaration(task="transcribe", context=448), {}),
}
