"""Waiting until the memory of a replica's GPUs is measured free: for a while after an engine's end it is not.

The kernel takes a killed engine's memory back when its last mapping is gone, seconds after the process; an engine that
starts before that finds too little (facts/engines.md section 4.3).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reconciler.errors import AgentError
from reconciler.placement.room import BUSY_MIB

if TYPE_CHECKING:
    from reconciler.agent.replica import Replica
    from reconciler.domain.observed import ObservedGpu
    from reconciler.domain.placement import PlacedGpu

_log = logging.getLogger(__name__)

LOOK_AGAIN = 1.0
"""Seconds between looks at memory that is not free yet."""

FREED_WITHIN = 60.0
"""Seconds, after which nothing frees it by itself: what goes on then says better what is wrong than waiting does."""


async def busy(replica: Replica) -> str | None:
    """What its GPUs wait for, measured now; None where they are free, not measured, or were waited for long enough."""
    placed = own_gpus(replica)
    if not placed:
        return None
    gpus = replica.tools.gpus
    await gpus.look()
    seen = gpus.seen()
    by_uuid = {gpu.uuid: gpu for gpu in seen.gpus}
    waits = [words for gpu in placed if (words := _not_free(by_uuid.get(gpu.uuid))) is not None]
    if seen.is_silent:  # which one of them a placed one is, only the driver knows
        waits += [f"GPU {gpu.index} ({gpu.uuid}) is not shown by the driver" for gpu in seen.strangers(placed)]
    watch, now = replica.watch, replica.now().seconds
    if not waits:
        watch.busy_since = None
        return None
    watch.busy_since = now if watch.busy_since is None else watch.busy_since
    told = ", ".join(waits)
    if now - watch.busy_since < FREED_WITHIN:
        return told
    _log.warning("%s: not waited for any longer: %s", replica.record.id, told)
    return None


def own_gpus(replica: Replica) -> tuple[PlacedGpu, ...]:
    """Its GPUs on this node."""
    shards, node = replica.record.entry.placement.shards, replica.tools.config.node
    return tuple(gpu for shard in shards if shard.node == node for gpu in shard.gpus)


def no_strangers(replica: Replica) -> None:
    """AgentError where a placed GPU is none of this node's: CUDA cuts its list there, and the engine gets fewer."""
    gpus = replica.tools.gpus.seen()
    strangers = gpus.strangers(own_gpus(replica))
    if strangers:
        placed = ", ".join(f"GPU {gpu.index} ({gpu.uuid})" for gpu in strangers)
        has = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus.gpus)
        raise AgentError(
            f"{replica.record.id} is placed on {placed}, and {replica.tools.config.node} has {has}",
            hint="plan again: the placement is older than what the node's driver shows",
        )


def _not_free(gpu: ObservedGpu | None) -> str | None:
    if gpu is None:
        return None
    if not gpu.answers:
        return f"GPU {gpu.index} does not answer its driver"
    used = gpu.used_mib or 0
    return f"GPU {gpu.index} has {used / 1_024:.1f} GiB in use" if used > BUSY_MIB else None
