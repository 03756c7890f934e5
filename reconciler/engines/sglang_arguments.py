"""SGLang's command line and environment, from a declaration and the node's side of it.

Flags of 0.5.23 (table in `domain/tables/flags`, goldens parsed by its own parser); all of them are in 0.5.3 as well.
Left to SGLang on purpose: its share of the card where `memory_share` is not written, and the tokens of one step. It
works both out for the card, and sizing does the same arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.adapter_slots import gpu_slots, slot_rank
from reconciler.domain.model_spec import Task
from reconciler.engines.base import CannotLaunch, Port
from reconciler.engines.caches import kernel_caches
from reconciler.engines.devices import visible_devices
from reconciler.engines.secret_settings import SecretSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Site

KEY = "SGLANG_API_KEY"
"""The variable under which a profile declares its API key. SGLang reads no such variable: the name is ours."""

KEY_FILE = "sglang.yaml"
"""In the replica's own directory. Its `--config` wants a name that ends in .yaml or .yml."""


def arguments(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """All words after `sglang serve`. Declared `args` come last: SGLang takes the last of a repeated flag.

    Of the names only the model's own goes in: SGLang lists one name and answers requests under any, so that aliases
    are answered too, and are not in its list.
    """
    return (
        *("--model-path", site.model_path, "--served-model-name", declaration.model),
        *("--host", site.host, "--port", str(site.port)),
        *(("--is-embedding",) if declaration.task is Task.EMBED else ()),
        *_parallel(declaration),
        *_nodes(declaration, site),
        *_memory(declaration),
        *_adapters(declaration, site),
        *_numa(site),
        "--enable-metrics",
        *(word for name in key_file(declaration, site) for word in ("--config", f"{site.directory}/{name}")),
        *declaration.args,
    )


def key_file(declaration: Declaration, site: Site) -> Mapping[str, SecretSettings]:
    """The file with its API key, for `--config`; none where no key is declared, or where it answers no requests.

    Of 0.5.23: what the file says is read before the command line, `/health` and `/metrics` are answered without a key,
    and everything else wants it as a bearer token, adapters too (utils/auth.py). Raises CannotLaunch without a
    directory: it would serve without its key.
    """
    if KEY not in (declaration.env or {}) or not site.leads:
        return {}
    if site.directory is None:
        raise CannotLaunch(f"{KEY} is declared, and there is no directory for the file that hands it to SGLang")
    return {KEY_FILE: SecretSettings({"api-key": KEY})}


def environment(declaration: Declaration, site: Site) -> Mapping[str, str]:
    """GPUs, caches, and silence towards the outside: weights are on the node.

    GPUs by UUID as for every engine. SGLang wants numbers for its own all-reduce, and with UUIDs says in a warning that
    it takes NCCL's (custom_all_reduce_utils.py): slower by some of each token, but never on a GPU of somebody else.
    """
    return {
        **visible_devices(site),
        **kernel_caches(site),
        **_own_caches(site),
        **({"SGLANG_HOST_IP": site.address} if declaration.nodes > 1 else {}),
        "HF_HUB_OFFLINE": "1",
    }


def _own_caches(site: Site) -> Mapping[str, str]:
    """Its own, beside those of `kernel_caches`.

    0.5.23 keeps all of them below the first but what it compiles itself (environ.py); releases before have DeepGEMM's
    under $HOME as well.
    """
    if site.cache_dir is None:
        return {}
    root = f"{site.cache_dir}/sglang"
    return {
        "SGLANG_CACHE_DIR": root,
        "SGLANG_JIT_CACHE_DIR": f"{root}/jit",
        "SGLANG_DG_CACHE_DIR": f"{root}/deep_gemm",
    }


def tensor_parallel(declaration: Declaration) -> int:
    """Ranks that share each matrix: `gpus * nodes / (pipeline * data)`, at least one.

    Its data-parallel ranks are whole copies of the model with GPUs of their own, all on one node.
    """
    ranks = max(1, declaration.gpus) * declaration.nodes
    return max(1, ranks // (declaration.pipeline_parallel * declaration.data_parallel))


def _parallel(declaration: Declaration) -> tuple[str, ...]:
    tensor = tensor_parallel(declaration)
    return (
        *("--tp-size", str(tensor), "--pp-size", str(declaration.pipeline_parallel)),
        *("--dp-size", str(declaration.data_parallel)),
        *(("--ep-size", str(tensor)) if declaration.expert_parallel else ()),
    )


def _nodes(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """Where the nodes meet. With one node it picks a port of its own below those for outgoing connections."""
    if declaration.nodes == 1:
        return ()
    leader = f"[{site.leader}]" if ":" in site.leader else site.leader
    return (
        *("--nnodes", str(declaration.nodes), "--node-rank", str(site.rank)),
        *("--dist-init-addr", f"{leader}:{site.port_of(Port.RENDEZVOUS)}"),
        *("--nccl-port", str(site.port_of(Port.COLLECTIVES))),
    )


def _memory(declaration: Declaration) -> tuple[str, ...]:
    """What sizes it, as far as it is written."""
    share = declaration.memory_share
    asked = (
        ("--context-length", declaration.context),
        ("--max-running-requests", declaration.max_concurrency),
        ("--mem-fraction-static", None if share is None else f"{share:g}"),
        ("--kv-cache-dtype", declaration.kv_cache_dtype),
        ("--dtype", declaration.dtype),
        ("--quantization", declaration.quantization),
    )
    return tuple(str(word) for flag, value in asked if value is not None for word in (flag, value))


def _adapters(declaration: Declaration, site: Site) -> tuple[str, ...]:
    """A slot on the card for each adapter and one for requests without, as wide as the widest needs.

    `--max-lora-rank` in `args` decides on the width instead.
    """
    names = [adapter.name for adapter in declaration.adapters]
    if not names:
        return ()
    return (
        *("--enable-lora", "--max-loras-per-batch", str(gpu_slots(declaration.engine, len(names)))),
        *("--max-lora-rank", str(slot_rank(site.adapter_ranks.values()))),
        # name=path is cut at the first equals sign, which no name has
        *("--lora-paths", *(f"{name}={site.adapter_paths[name]}" for name in names)),
    )


def _numa(site: Site) -> tuple[str, ...]:
    """Each scheduler beside its GPU, where the node knows which memory that is."""
    if not site.gpus or len(site.numa_nodes) != len(site.gpus):
        return ()
    return ("--numa-node", *map(str, site.numa_nodes))
