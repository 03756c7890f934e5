"""Declarations of llama.cpp replicas, by what is special about them; their command lines are golden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.declaration import Declaration
from reconciler.domain.model_spec import Engine
from reconciler.domain.placement import PlacedGpu
from reconciler.engines.base import Site
from reconciler.engines.devices import vendor_of

if TYPE_CHECKING:
    from collections.abc import Mapping

ON_ONE_GPU = {"gpu_class": "l40s", "gpus": 1}
ADAPTERS = [{"name": "sql", "source": "file:/weights/sql.gguf"}, {"name": "chat", "source": "file:/weights/chat.gguf"}]
SCALED = [ADAPTERS[0] | {"scale": 0.5}, ADAPTERS[1]]


def a_declaration(**fields: Any) -> Declaration:
    """One slot of 2,048 tokens on one core."""
    on_cpu = {} if "gpu_class" in fields else {"memory_gib": 1.0, "cpu_cores": 1}
    usual = {"model": "tiny", "engine": Engine.LLAMACPP, "source": "file:/weights/tiny.gguf", "context": 2048}
    return Declaration.model_validate(usual | on_cpu | fields)


CASES: Mapping[str, Declaration] = {
    "cpu": a_declaration(),
    "cpu, aliases": a_declaration(aliases=("a-tiny", "tiny-chat")),
    "cpu, four slots and threads": a_declaration(max_concurrency=4, cpu_cores=2),
    "cpu, a context that is no multiple of 256": a_declaration(context=1000, max_concurrency=3),
    "cpu, plain cache": a_declaration(kv_cache_dtype="bf16"),
    "cpu, quantised cache": a_declaration(kv_cache_dtype="q8_0"),
    "cpu, adapters": a_declaration(adapters=ADAPTERS),
    "cpu, scaled adapters": a_declaration(adapters=SCALED),
    "cpu, projector": a_declaration(mmproj="file:/weights/mmproj.gguf"),
    "cpu, embed": a_declaration(task="embed", args=("--pooling", "mean")),
    "cpu, rerank": a_declaration(task="rerank"),
    "cpu, args come last": a_declaration(args=("--ubatch-size", "256", "--no-warmup")),
    "one gpu": a_declaration(**ON_ONE_GPU),
    "one gpu, adapters": a_declaration(**ON_ONE_GPU, adapters=SCALED),
    "one amd gpu": a_declaration(gpu_class="mi300x", gpus=1),
    "two amd gpus": a_declaration(gpu_class="mi300x", gpus=2),
    "four gpus": a_declaration(gpu_class="h100-80gb", gpus=4, max_concurrency=8, kv_cache_dtype="q8_0"),
    "four gpus, shares by args": a_declaration(gpu_class="h100-80gb", gpus=4, args=("--tensor-split", "1,1,1,2")),
}


def a_site(declaration: Declaration, weights: str = "/weights", host: str = "127.0.0.1", port: int = 20_000) -> Site:
    """The node's side: files of the source's name in one directory, GPUs by number from 2 on."""
    mmproj = None if declaration.mmproj is None else f"{weights}/mmproj.gguf"
    adapters = {adapter.name: f"{weights}/{adapter.name}.gguf" for adapter in declaration.adapters}
    gpus = tuple(PlacedGpu(uuid=f"GPU-{index}", index=index) for index in range(2, 2 + declaration.gpus))
    vendor = vendor_of(declaration.gpu_class)
    return Site(host, port, f"{weights}/tiny.gguf", mmproj, adapters, gpus, vendor, cache_dir="/var/cache/engines")
