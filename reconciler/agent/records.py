"""What the agent remembers: one record for the node, one for each replica. These are the journal's file formats.

Unknown keys are ignored, so that an older agent can read what a newer one wrote.
Fields ending in `_seconds_at` are readings of the monotonic clock of the boot that `boot_id` names.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import ConfigDict

from reconciler.agent.drivers.base import ProcessIdentity
from reconciler.domain.assignment import Assignment, Holder, RunEntry
from reconciler.domain.base import Count, Frozen, Name, Text
from reconciler.domain.observed import LoadTime, ReplicaState


class _Kept(Frozen):
    model_config = ConfigDict(extra="ignore")


class StopRecord(_Kept):
    """A stop that was asked for; it is finished whatever happens to the reconciler or to this agent."""

    withdraw_delay: timedelta
    drain_timeout: timedelta
    withdrawn_seconds_at: float | None = None
    """When it was withdrawn from routing; None for a replica that served nobody: it is signalled at once."""
    unproven: bool = False
    """It was adopted and not seen ready since: whether it serves somebody is asked before it is signalled."""
    signalled_seconds_at: float | None = None
    """When the intent to signal was recorded, before the first signal; the engine's deadlines count from here."""


class ReplicaRecord(_Kept):
    """One replica as the agent holds it."""

    entry: RunEntry
    state: ReplicaState
    since: datetime
    """When the state began, by the wall clock."""
    state_seconds_at: float
    boot_id: Text
    """Of the boot whose monotonic clock the readings are of."""
    identity: ProcessIdentity | None = None
    """The process, until its whole group is gone: while it stands here its GPUs are held."""
    port: int | None = None
    """Chosen before the launch; the same again after a restart in place, if it is free."""
    url: str | None = None
    launched_seconds_at: float | None = None
    ready_seconds_at: float | None = None
    """When this launch became ready."""
    load_seconds: float | None = None
    failures_in_a_row: Count = 0
    failure: str | None = None
    retry_seconds_at: float | None = None
    """When a failed replica is launched again without being told; None waits for a higher attempt."""
    stop: StopRecord | None = None

    @property
    def id(self) -> str:
        """Its replica id."""
        return self.entry.id


class ClaimRecord(_Kept):
    """The claim the agent last granted."""

    fleet: Name
    holder: Holder
    epoch: Count
    ttl_seconds: float
    boot_id: Text
    """Of the agent's machine when it was granted: a holder on the same boot died with it."""


class NodeRecord(_Kept):
    """What the agent holds for the whole node."""

    agent_starts: Count
    """Times an agent started on this journal; revisions count from it, so that one from before is never mistaken."""
    epoch: Count = 0
    """The highest ever issued."""
    claim: ClaimRecord | None = None
    accepted: tuple[Count, Count] = (0, 0)
    """(epoch, generation) of the newest assignment taken."""
    assignment: Assignment | None = None
    """That assignment; None when its engines were stopped by hand since."""
    ready_digests: tuple[str, ...] = ()
    """Launch digests that reached ready on this node, oldest first."""
    load_times: tuple[LoadTime, ...] = ()
