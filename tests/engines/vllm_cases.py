"""Declarations of vLLM replicas with the node's side of each, by what is special about them; each has a golden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.declaration import Declaration
from reconciler.domain.model_spec import Engine
from reconciler.domain.placement import PlacedGpu
from reconciler.engines.base import Site, Vendor

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 2**30
ADAPTERS = [{"name": "sql", "source": "file:/weights/sql"}, {"name": "chat", "source": "file:/weights/chat"}]


def a_declaration(**fields: Any) -> Declaration:
    """One H100, a context of 32,768 tokens."""
    on_cpu = fields.pop("on_cpu", False)
    where: dict[str, Any] = {"memory_gib": 8.0, "cpu_cores": 4} if on_cpu else {"gpu_class": "h100-80gb", "gpus": 1}
    usual = {"model": "llama-70b", "engine": Engine.VLLM, "source": "file:/weights/llama", "context": 32768}
    return Declaration.model_validate(usual | where | fields)


def a_site(declaration: Declaration, **fields: Any) -> Site:
    """The node's side: weights in one directory, GPUs by number from 2 on."""
    gpus = declaration.gpus if declaration.gpu_class is not None else 0
    usual: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 20_000,
        "model_path": "/weights/llama",
        "adapter_paths": {adapter.name: f"/weights/{adapter.name}" for adapter in declaration.adapters},
        "gpus": tuple(PlacedGpu(uuid=f"GPU-{index}", index=index) for index in range(2, 2 + gpus)),
        "cache_dir": "/var/cache/engines",
    }
    return Site(**usual | fields)


_TWO_NODES = {"addresses": ("10.0.0.1", "10.0.0.2"), "host": "10.0.0.1"}
_OVER_NODES = a_declaration(gpus=8, nodes=2)
_CPUS_OVER_NODES = a_declaration(on_cpu=True, context=4096, nodes=2)
_DATA_OVER_NODES = a_declaration(gpus=8, nodes=2, data_parallel=4, expert_parallel=True)

CASES: Mapping[str, tuple[Declaration, Mapping[str, Any]]] = {
    "one-gpu": (a_declaration(aliases=("chat", "default"), max_concurrency=128), {}),
    "one-gpu-args": (a_declaration(memory_share=0.85, args=("--enable-prefix-caching", "--enforce-eager")), {}),
    "one-gpu-0.17": (a_declaration(version="0.17.0"), {}),
    "one-amd-gpu": (a_declaration(gpu_class="mi300x"), {"vendor": Vendor.AMD}),
    "one-gaudi": (a_declaration(gpu_class="gaudi3"), {"vendor": Vendor.INTEL}),
    "two-gaudis": (a_declaration(gpu_class="gaudi3", gpus=2), {"vendor": Vendor.INTEL}),
    "four-gpus": (a_declaration(gpus=4), {"numa_nodes": (0, 0, 1, 1)}),
    "pipeline": (a_declaration(gpus=8, pipeline_parallel=2), {}),
    "data-and-expert-parallel": (a_declaration(gpus=8, data_parallel=4, expert_parallel=True), {}),
    "two-nodes-rank-0": (_OVER_NODES, _TWO_NODES),
    "two-nodes-rank-1": (_OVER_NODES, _TWO_NODES | {"rank": 1, "host": "10.0.0.2"}),
    "two-nodes-pipeline-rank-1": (
        a_declaration(gpus=8, nodes=2, pipeline_parallel=2),
        _TWO_NODES | {"rank": 1, "host": "10.0.0.2"},
    ),
    "two-nodes-data-parallel-rank-0": (_DATA_OVER_NODES, _TWO_NODES),
    "two-nodes-data-parallel-rank-1": (_DATA_OVER_NODES, _TWO_NODES | {"rank": 1, "host": "10.0.0.2"}),
    "quantized": (a_declaration(quantization="fp8", dtype="bfloat16", kv_cache_dtype="fp8"), {}),
    "adapters": (a_declaration(adapters=ADAPTERS), {"adapter_ranks": {"sql": 8, "chat": 24}}),
    "adapters-data-parallel": (a_declaration(gpus=2, data_parallel=2, adapters=ADAPTERS), {}),
    "embed": (a_declaration(task="embed", context=8192), {}),
    "rerank": (a_declaration(task="rerank", context=8192), {}),
    "transcribe": (a_declaration(task="transcribe", context=448), {}),
    "cpu": (a_declaration(on_cpu=True, context=4096), {"weight_bytes": 2 * GIB, "vocabulary_bytes": GIB // 2}),
    "cpu-cores-dealt-out": (a_declaration(on_cpu=True, context=4096), {"cores": (2, 3, 4, 5)}),
    "cpu-tensor-parallel-2": (a_declaration(on_cpu=True, context=4096, gpus=2), {"weight_bytes": 2 * GIB}),
    "cpu-two-nodes-rank-0": (_CPUS_OVER_NODES, _TWO_NODES | {"weight_bytes": 2 * GIB}),
    "cpu-two-nodes-rank-1": (_CPUS_OVER_NODES, _TWO_NODES | {"rank": 1, "host": "10.0.0.2", "weight_bytes": 2 * GIB}),
    "cpu-adapters": (a_declaration(on_cpu=True, context=4096, adapters=ADAPTERS), {}),
}
"""The declaration, and what its site has beyond `a_site`."""
