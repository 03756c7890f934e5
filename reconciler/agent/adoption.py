"""What a replica has become while no agent was watching. Pure; used at the agent's start, and to look without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.agent import lifecycle
from reconciler.domain.observed import ReplicaState

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.agent.clock import Moment
    from reconciler.agent.records import ReplicaRecord


def adopted(
    record: ReplicaRecord, moment: Moment, *, boot_id: str, alive: bool, why: Callable[[], str], ever_ready: bool
) -> ReplicaRecord | None:
    """The record as of now; None when the replica was being stopped and is gone.

    `alive` tells whether its process runs; `why` says how it ended, for when it does not.
    A healthy engine stays as it is. One that ended has failed, as if the agent had seen it.
    After a reboot nothing has failed: what was accepted starts again.
    """
    if alive:
        return record
    if record.stop is not None:
        return None if record.identity is None or record.boot_id != boot_id else record
    if record.boot_id != boot_id:
        return _rebooted(record, moment, boot_id, ever_ready=ever_ready)
    match record.state:
        case ReplicaState.PENDING | ReplicaState.FAILED:
            return record
        case ReplicaState.STARTING if record.identity is None:
            return lifecycle.again(record, moment)  # the agent ended before the launch
        case (
            ReplicaState.STARTING
            | ReplicaState.READY
            | ReplicaState.UNHEALTHY
            | ReplicaState.DRAINING
            | ReplicaState.STOPPING
        ):
            return lifecycle.ended(record, why(), moment, ever_ready=ever_ready)


def _rebooted(record: ReplicaRecord, moment: Moment, boot_id: str, *, ever_ready: bool) -> ReplicaRecord:
    """No process and no monotonic reading of the boot before means anything now."""
    stays = record.state is ReplicaState.FAILED and not ever_ready
    cleared = record.model_copy(
        update={
            "boot_id": boot_id,
            "identity": None,
            "launched_seconds_at": None,
            "ready_seconds_at": None,
            "state_seconds_at": moment.seconds - max((moment.at - record.since).total_seconds(), 0.0),
        }
    )
    return cleared if stays else lifecycle.again(cleared, moment)
