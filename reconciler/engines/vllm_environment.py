"""The environment of a vLLM process, on top of the declared one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.engines.base import Vendor
from reconciler.engines.caches import kernel_caches
from reconciler.engines.devices import visible_devices
from reconciler.engines.versions import at_least
from reconciler.engines.vllm_arguments import ranks_here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Site

_PATIENCE_SECONDS = 24 * 60 * 60
"""How long the API server waits for its engine: the agent ends a start that makes no progress, and nobody else. Its
own limit is ten minutes, however much is still to be loaded."""

BY_UUID = "0.24"
"""The first version that finds a GPU by its UUID: the ones before take every word of CUDA_VISIBLE_DEVICES for a number
and end with `ValueError: invalid literal for int()`. Read in platforms/interface.py and cuda.py of 0.22.1, 0.23.0 and
0.24.0; vllm-project/vllm pull request 45026, issues 13815, 20939, 32569."""


def environment(declaration: Declaration, site: Site) -> Mapping[str, str]:
    """GPUs, cores, caches, and silence towards the outside: weights are on the node, and nobody is told of them."""
    return {
        **_devices(declaration, site),
        **({} if declaration.gpu_class is not None else _cores(declaration, site)),
        **kernel_caches(site),
        **({} if site.cache_dir is None else {"VLLM_CACHE_ROOT": f"{site.cache_dir}/vllm"}),
        **({"VLLM_HOST_IP": site.address} if declaration.nodes > 1 else {}),
        **({"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"} if declaration.loads_adapters else {}),
        "VLLM_ENGINE_READY_TIMEOUT_S": str(_PATIENCE_SECONDS),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def _devices(declaration: Declaration, site: Site) -> Mapping[str, str]:
    """The placed GPUs by UUID; by number, in the driver's own order, for the versions that know nothing else.

    A MIG slice has no number that CUDA takes: those versions cannot be given one, and say so.
    """
    whole = bool(site.gpus) and not any(gpu.uuid.startswith("MIG-") for gpu in site.gpus)
    if site.vendor is not Vendor.NVIDIA or not whole or at_least(declaration.version, BY_UUID):
        return visible_devices(site)
    return {**visible_devices(site), "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in site.gpus)}


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
