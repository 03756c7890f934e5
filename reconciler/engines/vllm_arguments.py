"""`vllm serve`'s command line, from a declaration and the node's side of it.

Flags of vLLM 0.32 and 0.33 (tables in `domain/tables/flags`, goldens parsed by 0.32); what older versions lack stands
behind a version. Two defaults of vLLM that move memory are left to it on purpose: `--max-num-batched-tokens`, and
`--max-num-seqs` where `max_concurrency` is not written. It takes them from the card and then corrects them by the model
(Whisper's length, prompts that cannot be cut, the longest picture), which a number written here would overrule. Sizing
counts them as the engine version sets them for the card.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reconciler.domain.adapter_slots import room_for, slot_rank
from reconciler.domain.model_spec import Task
from reconciler.engines.base import Port
from reconciler.engines.counting import counting_rules
from reconciler.engines.versions import at_least
from reconciler.sizing.host_memory import beside_weights, cache_bytes

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Site

_GIB = 2**30
_SHUTDOWN_TIMEOUT = "0.18"
_NUMA_BIND = "0.32"
"""The oldest versions that are known to have `--shutdown-timeout` (pull request 34730) and `--numa-bind`."""


def arguments(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """All words after the program. Declared `args` come last: vLLM takes the last of a repeated flag."""
    return (
        *("serve", site.model_path),
        *("--served-model-name", declaration.model, *declaration.aliases),
        *("--host", site.host, "--port", str(site.port)),
        *_task(declaration),
        *_parallel(declaration),
        *_nodes(declaration, site),
        *_memory(declaration, site),
        *_types(declaration),
        *_adapters(declaration, site),
        *_numa(declaration, site),
        # The agent has drained before it signals: what is still in flight then has had its time.
        *(("--shutdown-timeout", "0") if at_least(declaration.version, _SHUTDOWN_TIMEOUT) else ()),
        *declaration.args,
    )


def tensor_parallel(declaration: Declaration) -> int:
    """Ranks that share each matrix: what pipeline stages and data-parallel ranks leave. On CPUs a rank is as a GPU."""
    ranks = max(1, declaration.gpus) * declaration.nodes
    return max(1, ranks // (declaration.pipeline_parallel * declaration.data_parallel))


def ranks_here(declaration: Declaration) -> int:
    """Workers on one node of the replica."""
    world = tensor_parallel(declaration) * declaration.pipeline_parallel * declaration.data_parallel
    return max(1, world // declaration.nodes)


def _task(declaration: Declaration) -> tuple[str, ...]:
    """A model is not asked which of its abilities is meant."""
    match declaration.task:
        case Task.EMBED | Task.RERANK:
            return ("--runner", "pooling")
        case Task.GENERATE | Task.TRANSCRIBE | Task.IMAGE:
            return ("--runner", "generate")


def _parallel(declaration: Declaration) -> tuple[str, ...]:
    """How the model is cut. Worker processes of its own also where Ray is installed."""
    tensor, pipeline, data = tensor_parallel(declaration), declaration.pipeline_parallel, declaration.data_parallel
    backend = ("--distributed-executor-backend", "mp") if tensor * pipeline * data > 1 else ()
    return (
        *("--tensor-parallel-size", str(tensor)),
        *("--pipeline-parallel-size", str(pipeline)),
        *("--data-parallel-size", str(data)),
        *(("--enable-expert-parallel",) if declaration.expert_parallel else ()),
        *backend,
    )


def _nodes(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """Where the nodes meet; all but the first only compute."""
    if declaration.nodes == 1:
        return ()
    data = ("--data-parallel-rpc-port", str(site.port_of(Port.DATA_PARALLEL)))
    return (
        *("--nnodes", str(declaration.nodes), "--node-rank", str(site.rank)),
        *("--master-addr", site.leader, "--master-port", str(site.port_of(Port.RENDEZVOUS))),
        *(data if declaration.data_parallel > 1 else ()),
        *(() if site.leads else ("--headless",)),
    )


def _memory(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """What sizes it. The share of the card is written out, so that it is the one that was counted."""
    context, seqs = declaration.context, declaration.max_concurrency
    return (
        *(() if context is None else ("--max-model-len", str(context))),
        *(() if seqs is None else ("--max-num-seqs", str(seqs))),
        *(_share(declaration) if declaration.gpu_class is not None else _host_cache(declaration, site)),
    )


def _share(declaration: Declaration) -> tuple[str, ...]:
    share = declaration.memory_share
    if share is None:
        share = counting_rules(declaration.engine, declaration.version).share
    return ("--gpu-memory-utilization", f"{share:g}")


def _host_cache(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """On CPUs: the KV cache of each rank is its part of what processes and weights leave of `memory_gib`.

    Not as VLLM_CPU_KVCACHE_SPACE, which takes whole GiB only and wins over the flag, also over one in `args`. The sum
    is that of sizing, so that the gate has judged the cache that is asked for here.
    """
    if declaration.memory_gib is None:
        return ()
    here = ranks_here(declaration)
    # One copy of the weights lies on the ranks that share matrices and layers.
    copies = here / (tensor_parallel(declaration) * declaration.pipeline_parallel)
    rules = counting_rules(declaration.engine, declaration.version)
    beside = beside_weights(rules, here, int((site.vocabulary_bytes or 0) * copies))
    weights = int((site.weight_bytes or 0) * copies)
    cache = cache_bytes(int(declaration.memory_gib * _GIB), weights, beside.likely)
    return ("--kv-cache-memory-bytes", str(cache // here))


def _types(declaration: Declaration) -> tuple[str, ...]:
    asked = (
        ("--dtype", declaration.dtype),
        ("--quantization", declaration.quantization),
        ("--kv-cache-dtype", declaration.kv_cache_dtype),
    )
    return tuple(word for flag, value in asked if value is not None for word in (flag, value))


def _adapters(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """A slot on the card for each adapter, as wide as the widest needs; `--max-lora-rank` in `args` decides instead.

    What is loaded later shares those slots, out of host memory: `--max-cpu-loras`, which else has room for these only.
    """
    names = [adapter.name for adapter in declaration.adapters]
    if not names:
        return ()
    return (
        *("--enable-lora", "--max-loras", str(len(names))),
        *(("--max-cpu-loras", str(room_for(len(names)))) if declaration.loads_adapters else ()),
        *("--max-lora-rank", str(slot_rank(site.adapter_ranks.values()))),
        # one value for each adapter; as JSON, because name=path is cut at commas
        *("--lora-modules", *(json.dumps({"name": name, "path": site.adapter_paths[name]}) for name in names)),
    )


def binds_itself(declaration: Declaration) -> bool:
    """Whether this version can be told beside which memory each of its workers belongs."""
    return at_least(declaration.version, _NUMA_BIND)


def _numa(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """Each worker beside its GPU, where the node knows which memory that is."""
    if len(site.numa_nodes) != len(site.gpus) or not site.gpus or not binds_itself(declaration):
        return ()
    return ("--numa-bind", "--numa-bind-nodes", *map(str, site.numa_nodes))
