"""What the agent remembers: one record for the node, one for each replica. These are the journal's file formats.

Unknown keys are ignored, so that an older agent can read what a newer one wrote.
Fields ending in `_seconds_at` are readings of the monotonic clock of the boot that `boot_id` names.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import AwareDatetime, ConfigDict, Field

from reconciler.agent.drivers.base import ProcessIdentity
from reconciler.domain.assignment import Assignment, RunEntry
from reconciler.domain.base import Count, Frozen, Text
from reconciler.domain.claims import ClaimRecord
from reconciler.domain.declaration import DeclaredAdapter
from reconciler.domain.observed import FailedLaunch, LoadTime, ReplicaState
from reconciler.domain.placement import ReplicaId


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
    """Where it answers; the leader's, on the other nodes of a replica over several."""
    cores: tuple[Count, ...] = ()
    """CPU cores that are its alone, as chosen for the launch."""
    adapters: tuple[DeclaredAdapter, ...] = ()
    """What was given to the engine at its launch or since, each with the source that it was loaded from."""
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
    last_good: tuple[RunEntry, ...] = ()
    """What reached ready last in each slot, oldest first."""
    left_at: dict[ReplicaId, AwareDatetime] = Field(default_factory=dict)
    """When those of them that are gone went, by the wall clock."""
    failed_launches: tuple[FailedLaunch, ...] = ()
    """Launches that never answered, by slot and launch digest, oldest first."""
    failed_starts: tuple[ReplicaId, ...] = ()
    """Replicas whose launches failed since the last one that came up, each once, oldest first."""
    failed_at: AwareDatetime | None = None
    """When the last of them failed, by the wall clock."""
