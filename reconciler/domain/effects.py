"""What changing each field of `cluster/` does to a running replica: the field-effect table.

Every schema field stands here once, by its dotted path; a test holds the table complete and
checks each `restart` and `none` row against the launch digest.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Effect(StrEnum):
    """How a change of one field reaches what runs."""

    NONE = "none"
    """Nothing about a running process changes: bookkeeping, policy or routing."""
    LIVE = "live"
    """The running process is told; it is not restarted."""
    RESTART = "restart"
    """The process is replaced by the rollout policy."""
    REPLACE = "re-place"
    """The process is replaced only where its node or GPUs no longer qualify."""


_NONE, _LIVE, _RESTART, _REPLACE = Effect.NONE, Effect.LIVE, Effect.RESTART, Effect.REPLACE

MODEL_EFFECTS: Mapping[str, Effect] = {
    "name": _RESTART,  # the served name; with `moved` the slots are kept
    "source": _RESTART,
    "external": _NONE,  # nothing is launched
    "external.url": _NONE,
    "external.model": _NONE,
    "external.api_key_env": _NONE,
    "context": _RESTART,
    "aliases": _RESTART,  # served names; their order means nothing
    "task": _RESTART,
    "class": _NONE,
    "scaling": _NONE,
    "scaling.min": _NONE,  # changes how many run, not how one runs
    "scaling.max": _NONE,
    "scaling.idle_timeout": _NONE,
    "scaling.target": _NONE,
    "profiles": _RESTART,
    "adapters": _RESTART,
    "adapters.name": _LIVE,  # where the engine loads them live (Declaration.loads_adapters), else a restart
    "adapters.source": _LIVE,
    "adapters.scale": _RESTART,  # llama.cpp alone has it, and takes it at its start
    "fallbacks": _NONE,
    "rollout": _NONE,
    "rollout.strategy": _NONE,
    "rollout.max_surge": _NONE,
    "rollout.max_unavailable": _NONE,
    "rollout.min_ready": _NONE,
    "rollout.ready_timeout": _NONE,
    "rollout.drain_timeout": _NONE,
    "rollout.withdraw_delay": _NONE,
    "rollout.bake": _NONE,
    "max_output": _NONE,
    "owner": _NONE,
    "protect": _NONE,
    "suspend": _NONE,
    "restart": _RESTART,  # through the replica's id, not through the digest
    "moved": _NONE,
    "unverified": _NONE,
    "profiles.name": _NONE,
    "profiles.engine": _RESTART,
    "profiles.version": _RESTART,
    "profiles.source": _RESTART,
    "profiles.gpu_class": _RESTART,
    "profiles.gpus": _RESTART,
    "profiles.nodes": _RESTART,
    "profiles.pipeline_parallel": _RESTART,
    "profiles.data_parallel": _RESTART,
    "profiles.expert_parallel": _RESTART,
    "profiles.memory_share": _RESTART,
    "profiles.kv_cache_dtype": _RESTART,
    "profiles.dtype": _RESTART,
    "profiles.quantization": _RESTART,
    "profiles.max_concurrency": _RESTART,
    "profiles.mmproj": _RESTART,
    "profiles.memory_gib": _RESTART,  # on CPUs only; on GPUs a reservation
    "profiles.cpu_cores": _RESTART,  # on CPUs only; on GPUs a reservation
    "profiles.select": _REPLACE,
    "profiles.args": _RESTART,
    "profiles.env": _RESTART,
    "profiles.env.secret": _RESTART,  # the secret's name, never its value
}

FLEET_EFFECTS: Mapping[str, Effect] = {
    "name": _NONE,
    "allow_empty": _NONE,
    "defaults": _NONE,
    "defaults.engine_versions": _RESTART,  # of the replicas whose profile names no version
    "defaults.rollout": _NONE,
    **{path.replace("rollout", "defaults.rollout"): _NONE for path in MODEL_EFFECTS if path.startswith("rollout.")},
    "defaults.idle_timeout": _NONE,
    "limits": _NONE,
    "limits.models_removed": _NONE,
    "limits.replicas_removed": _NONE,
    "limits.concurrent_starts": _NONE,
    "gpu_classes": _NONE,
    "gpu_classes.memory_mib": _NONE,
    "gpu_classes.engine_mib": _NONE,
}

POOL_EFFECTS: Mapping[str, Effect] = {
    "pool": _NONE,
    "nodes": _REPLACE,
    "nodes.name": _REPLACE,
    **{
        f"{prefix}{path}": effect
        for prefix in ("", "nodes.")
        for path, effect in {
            "gpus": _REPLACE,
            "gpus.class": _REPLACE,
            "gpus.count": _REPLACE,
            "gpus.mig": _REPLACE,
            "memory_gib": _NONE,  # a bound for new replicas; what runs stays
            "cpu_cores": _NONE,
            "address": _NONE,
            "labels": _REPLACE,
            "drain": _REPLACE,
            "drain_gpus": _REPLACE,
        }.items()
    },
}
