"""The environment of a vLLM process, on top of the declared one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.engines.caches import kernel_caches
from reconciler.engines.devices import visible_devices
from reconciler.engines.vllm_arguments import ranks_here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Site

_PATIENCE_SECONDS = 24 * 60 * 60
"""How long the API server waits for its engine: the agent ends a start that makes no progress, and nobody else. Its
own limit is ten minutes, however much is still to be loaded."""


def environment(declaration: Declaration, site: Site) -> Mapping[str, str]:
    """GPUs, cores, caches, and silence towards the outside: weights are on the node, and nobody is told of them."""
    return {
        **visible_devices(site),
        **({} if declaration.gpu_class is not None else _cores(declaration, site)),
        **kernel_caches(site),
        **({} if site.cache_dir is None else {"VLLM_CACHE_ROOT": f"{site.cache_dir}/vllm"}),
        **({"VLLM_HOST_IP": site.address} if declaration.nodes > 1 else {}),
        **({"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"} if declaration.loads_adapters else {}),
        "VLLM_ENGINE_READY_TIMEOUT_S": str(_PATIENCE_SECONDS),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def _cores(declaration: Declaration, site: Site) -> Mapping[str, str]:
    """Threads of each rank on CPUs: on its own cores where cores were dealt out, else as many wherever there is time.

    Never `auto`, which binds one rank to each NUMA node, whatever else runs there, and refuses two on one.
    """
    ranks = ranks_here(declaration)
    count = len(site.cores) or declaration.cpu_cores or ranks
    each = max(1, count // ranks)
    parts = [site.cores[rank * each : (rank + 1) * each] for rank in range(ranks)]
    bound = "|".join(",".join(map(str, part)) for part in parts) if all(parts) else "nobind"
    return {"VLLM_CPU_OMP_THREADS_BIND": bound, "OMP_NUM_THREADS": str(each)}
