"""What a reconciler says to an agent: claims and whole assignments, and how the agent answers.

`PUT /v1/assignment` carries everything one node should run. What the agent holds and the assignment does not name
makes it refuse the whole (409): nothing is ever stopped by omission.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from reconciler.domain.base import Count, Frozen, Name, Positive, Replicas, Text
from reconciler.domain.declaration import Declaration
from reconciler.domain.placement import Placement, ReplicaId, parse_replica_id


class Holder(Frozen):
    """A reconciler process, described well enough to find it and to see that it is dead."""

    id: Text
    """Unique per process."""
    command: Text
    """`apply` or `run`, for messages."""
    user: Text
    machine: Text
    """Host name, for messages."""
    boot_id: Text
    """Of its machine: the same as the agent's means that pid and started_at can be looked up."""
    pid: int
    started_at: float
    """Process start time, seconds since the epoch as the kernel tells it."""


class ClaimRequest(Frozen):
    """`POST /v1/claim`: take, or with `epoch` renew, the right to change one node."""

    fleet: Name
    holder: Holder
    ttl_seconds: float = Field(gt=0, le=3_600)
    """On the agent's monotonic clock, from the moment it answers."""
    epoch: Count | None = None
    """Of the claim to renew; None takes a new one."""


class ClaimGranted(Frozen):
    """The agent's answer: every mutating call carries this epoch."""

    epoch: Count
    ttl_seconds: float


class Refusal(Frozen):
    """Why the agent answered 409."""

    reason: Literal["held", "stale", "omits", "wrong-node", "conflict"]
    """held: another holder is live; stale: epoch or generation is old; omits: replicas left out; conflict: an id or a
    GPU is in use by something else."""
    message: Text
    holder: Holder | None = None
    expires_in_seconds: float | None = None
    """Until a silent holder's claim lapses."""
    missing: tuple[str, ...] = ()
    """Replica ids that the assignment left out."""


class RunEntry(Frozen):
    """Run this replica on this node."""

    kind: Literal["run"] = "run"
    id: ReplicaId
    fleet: Name
    model: Name
    ordinal: Replicas
    placement: Placement
    declaration: Declaration
    digest: Text
    """Launch digest of the declaration, as the reconciler that made it computed it."""
    restart: Text | None = None
    """The model's restart token when it was made."""
    intent: Text | None = None
    """Id of the newest restart intent when it was made."""
    retry: Text | None = None
    """Id of the newest retry intent when it was sent; a failed replica without it is tried again. Not in the id."""
    ready_timeout: timedelta
    """Without progress for this long while starting, the replica has failed."""
    attempt: Count = 0
    """A higher attempt than the agent holds makes it launch a failed replica again, at once; of a replica over several
    nodes every part, since those that live on have lost the others."""
    addresses: tuple[Text, ...] = Field(default=(), exclude_if=lambda addresses: not addresses)
    """Under which the nodes of the placement reach each other, in its order, the leader first. Only of a replica over
    several nodes; else it is not sent, so that an older agent reads it too."""
    port: Positive | None = Field(default=None, exclude_if=lambda port: port is None)
    """First of the block of ports that it has on each of several nodes; None for a replica of one node, whose agent
    takes any one that is free."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        """An entry whose parts name different replicas would make one of them be stopped for the other."""
        if (self.model, self.ordinal) != parse_replica_id(self.id):
            raise ValueError(f"{self.id} is not an id of {self.model}/{self.ordinal}")
        if self.placement.id != self.id or self.declaration.model != self.model:
            raise ValueError(f"{self.id} is placed as {self.placement.id} and declares {self.declaration.model}")
        return self


class StopEntry(Frozen):
    """Drain and stop this replica; the entry stays in assignments until the replica is reported gone."""

    kind: Literal["stop"] = "stop"
    id: ReplicaId
    withdraw_delay: timedelta
    drain_timeout: timedelta


class PrefetchEntry(Frozen):
    """Pull weights and start nothing."""

    kind: Literal["prefetch"] = "prefetch"
    source: Text
    revision: Text | None = None


Entry = Annotated[RunEntry | StopEntry | PrefetchEntry, Field(discriminator="kind")]


class Assignment(Frozen):
    """Everything one node should run, fenced by (epoch, generation)."""

    fleet: Name
    node: Name
    holder: Text
    """Id of the claiming holder."""
    epoch: Count
    generation: Count
    entries: tuple[Entry, ...] = ()

    def named(self) -> frozenset[str]:
        """Ids of all replicas it names."""
        return frozenset(entry.id for entry in self.entries if not isinstance(entry, PrefetchEntry))
