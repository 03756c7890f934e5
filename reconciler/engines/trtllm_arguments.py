"""TensorRT-LLM's command line, options file and environment, from a declaration and the node's side of it.

Flags of 1.2 and 1.4 as their public files have them (tables in `domain/tables/flags`); the program itself does not
install without its GPUs. A flag that the nearest table does not have goes into the options file, which every version
reads: which of file and flag wins differs between releases, so nothing that differs stands in both.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reconciler.domain.flag_tables import flag_table
from reconciler.domain.model_spec import Engine
from reconciler.engines.caches import kernel_caches
from reconciler.engines.counting import counting_rules
from reconciler.engines.devices import visible_devices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Site

OPTIONS = "trtllm.yaml"
"""The options file's name in the replica's directory."""

_NAME, _CACHE = "--served_model_name", "--kv_cache_dtype"
_CONFIG = "--extra_llm_api_options"
"""Older than its other spelling, `--config`, and still taken."""


def arguments(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """All words after the program. Declared `args` come last: it takes the last of a repeated flag."""
    name = (_NAME, declaration.model) if names_itself(declaration) else ()
    return (
        *("serve", site.model_path, *name),
        *("--host", site.host, "--port", str(site.port)),
        *("--backend", "pytorch"),
        *_parallel(declaration),
        *_memory(declaration),
        *(() if site.directory is None else (_CONFIG, f"{site.directory}/{OPTIONS}")),
        *declaration.args,
    )


def options(declaration: Declaration) -> str:
    """The options file, as JSON, which is YAML.

    `enable_iter_perf_stats` makes `/metrics` tell what is in flight. A `kv_cache_config` replaces that of the flags as
    a whole in older releases, so that the share is in it too.
    """
    content: dict[str, Any] = {"enable_iter_perf_stats": True}
    if declaration.dtype is not None:
        content["dtype"] = declaration.dtype
    if declaration.kv_cache_dtype is not None and not _takes(declaration, _CACHE):
        content["kv_cache_config"] = {
            "dtype": declaration.kv_cache_dtype,
            "free_gpu_memory_fraction": _share(declaration),
        }
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def environment(site: Site) -> Mapping[str, str]:
    """GPUs, caches, and silence towards the outside: weights are on the node.

    Where the node knows the memory of its GPUs each rank binds itself beside its own: without the word it takes back
    whatever binding it finds (deployment guide, "CPU affinity"; pull request 9549), also one of `numactl`.
    """
    known = bool(site.gpus) and len(site.numa_nodes) == len(site.gpus)
    return {
        **visible_devices(site),
        **kernel_caches(site),
        **({"TLLM_NUMA_AWARE_WORKER_AFFINITY": "1"} if known else {}),
        "HF_HUB_OFFLINE": "1",
        "TRTLLM_NO_USAGE_STATS": "1",
    }


def names_itself(declaration: Declaration) -> bool:
    """Whether this version can be told its served name; one that cannot serves under the name of the directory."""
    return _takes(declaration, _NAME)


def tensor_parallel(declaration: Declaration) -> int:
    """Ranks that share each matrix: `gpus * nodes / pipeline`, at least one."""
    return max(1, max(1, declaration.gpus) * declaration.nodes // declaration.pipeline_parallel)


def _takes(declaration: Declaration, flag: str) -> bool:
    return flag in flag_table(Engine.TRTLLM, declaration.version).by_spelling


def _share(declaration: Declaration) -> float:
    share = declaration.memory_share
    return counting_rules(Engine.TRTLLM, declaration.version).share if share is None else share


def _parallel(declaration: Declaration) -> tuple[str, ...]:
    tensor = tensor_parallel(declaration)
    return (
        *("--tensor_parallel_size", str(tensor)),
        *("--pipeline_parallel_size", str(declaration.pipeline_parallel)),
        *(("--moe_expert_parallel_size", str(tensor)) if declaration.expert_parallel else ()),
        *("--gpus_per_node", str(max(1, declaration.gpus))),
    )


def _memory(declaration: Declaration) -> tuple[str, ...]:
    """What sizes it. The share of what is free is written out, so that it is the one that was counted."""
    cache = declaration.kv_cache_dtype if _takes(declaration, _CACHE) else None
    asked = (
        ("--max_seq_len", declaration.context),
        ("--max_batch_size", declaration.max_concurrency),
        ("--kv_cache_free_gpu_memory_fraction", f"{_share(declaration):g}"),
        (_CACHE, cache),
    )
    return tuple(str(word) for flag, value in asked if value is not None for word in (flag, value))
