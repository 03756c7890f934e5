"""What the node has: its GPUs as declared, and the engines that its agent may start and can."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from reconciler.domain.observed import ObservedGpu

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reconciler.agent.config import AgentConfig
    from reconciler.domain.model_spec import Engine
    from reconciler.domain.placement import PlacedGpu
    from reconciler.engines.base import EngineSupport


def declared_gpus(config: AgentConfig) -> tuple[ObservedGpu, ...]:
    """The declared GPUs as an observation shows them: `used_mib` is None, nothing measures them.

    Their UUIDs follow from node and index, so that a restarted agent names the same cards.
    """
    return tuple(
        ObservedGpu(uuid=_declared_uuid(config.node, index), index=index, gpu_class=gpu_class)
        for index, gpu_class in enumerate(config.gpus)
    )


def installed_engines(config: AgentConfig, support: Callable[[Engine], EngineSupport | None]) -> tuple[Engine, ...]:
    """Engines that the config lists, that this version can run, and whose program is there; sorted."""
    return tuple(
        kind
        for kind, command in sorted(config.engines.items())
        if support(kind) is not None and shutil.which(command[0]) is not None
    )


def numa_nodes(measured: Sequence[ObservedGpu], placed: Sequence[PlacedGpu], *, numactl: bool) -> tuple[int, ...]:
    """NUMA node of each placed GPU, in their order, for an engine to bind to; none where one is not known.

    Engines bind by means of `numactl`, and end at once where it is not installed.
    """
    known = {gpu.uuid: gpu.links.numa for gpu in measured if gpu.links is not None}
    found = tuple(numa for gpu in placed if (numa := known.get(gpu.uuid)) is not None)
    return found if numactl and len(found) == len(placed) else ()


def _declared_uuid(node: str, index: int) -> str:
    """In the form of NVML's: GPU-8-4-4-4-12 hex digits."""
    text = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"
