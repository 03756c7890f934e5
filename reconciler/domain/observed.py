"""The observed side: what agents report, as of one instant. It may be stale and says so by its ages.

These are also the wire types of `GET /v1/observation`.
Ages are durations on the agent's own clock, never instants to compare with ours: clocks of nodes differ.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from reconciler.domain.assignment import RunEntry
from reconciler.domain.base import Count, Flag, Frozen, Name, Text

if TYPE_CHECKING:
    from collections.abc import Iterator


class ReplicaState(StrEnum):
    """The life of one replica on its node."""

    PENDING = "pending"
    """Accepted; waits for its GPUs to be measured free, for its port, or for another start on them."""
    STARTING = "starting"
    """The process runs and has not answered yet; `stage` says how far it is."""
    READY = "ready"
    """It answered a request of its own kind."""
    UNHEALTHY = "unhealthy"
    """It was ready and has stopped answering; its process still runs."""
    DRAINING = "draining"
    """Withdrawn from routing; requests in flight are ending."""
    STOPPING = "stopping"
    """Signalled; its process or its GPUs' memory are not gone yet."""
    FAILED = "failed"
    """Its process is gone, or never came up; `failure` says why in one sentence."""


EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Before this no agent ran; an instant at the calendar's edge could not be shown in other time zones."""


class ObservedGpu(Frozen):
    """One GPU as its node measured it."""

    uuid: Text
    index: Count
    gpu_class: Text
    memory_mib: Count | None = None
    used_mib: Count | None = None
    """Memory in use by anything; None where it is declared, not measured."""
    answers: Flag = True
    """False when the driver no longer answers for it: unknown, not free and not zero."""


class ObservedReplica(Frozen):
    """One replica that this fleet's agent holds."""

    entry: RunEntry
    """What the agent was told to run; kept when it is told to stop."""
    state: ReplicaState
    state_for: timedelta = Field(default=timedelta())
    """How long it has been in this state, when the observation was answered."""
    since: datetime | None = Field(default=None, ge=EARLIEST)
    """When the state began, on the agent's wall clock; for display only."""
    stage: str | None = None
    """While starting: downloading, loading weights, warming and so on."""
    progress: str | None = None
    """Further words to the stage, such as `29 / 61 GiB`."""
    routable: Flag = False
    """Whether requests may be sent to `address`."""
    address: str | None = None
    """Base URL."""
    pid: int | None = None
    running: Count | None = None
    """Requests in flight; None when not known. A gauge: it moves without a new revision."""
    waiting: Count | None = None
    failure: str | None = None
    ever_ready: Flag = False
    """Whether this launch digest reached ready on this node at least once."""
    failures_in_a_row: Count = 0
    """Launches that ended by themselves since the last one that served for a minute."""
    load_seconds: float | None = None
    """From launch to ready, the last time."""

    @property
    def id(self) -> str:
        """Its replica id."""
        return self.entry.id


class ForeignProcess(Frozen):
    """A process on a GPU that this fleet did not start: reported, never touched."""

    pid: int
    command: str
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs it holds."""


class LoadTime(Frozen):
    """How long a model last took from launch to ready on a node; for estimates only."""

    model: Name
    seconds: float


class ReachableNode(Frozen):
    """A node that was heard."""

    kind: Literal["reachable"] = "reachable"
    name: Name
    boot_id: Text
    """Changes when the machine reboots."""
    agent: Flag = True
    """False for the local node when no agent runs: read from its journal and the process table."""
    revision: Count = 0
    """Moves on state transitions only."""
    epoch: Count = 0
    """The highest epoch the agent has issued."""
    generation: Count = 0
    """Of the assignment it holds."""
    gpus: tuple[ObservedGpu, ...] = ()
    engines: tuple[Text, ...] = ()
    """Engines that the agent's config lists and that are installed."""
    replicas: tuple[ObservedReplica, ...] = ()
    foreign: tuple[ForeignProcess, ...] = ()
    load_times: tuple[LoadTime, ...] = ()

    @model_validator(mode="after")
    def _names_each_replica_once(self) -> Self:
        ids = [replica.id for replica in self.replicas]
        if len(set(ids)) != len(ids):
            raise ValueError("a replica is reported twice")
        return self


class UnreachableNode(Frozen):
    """A node that did not answer: what runs there is unknown, not gone."""

    kind: Literal["unreachable"] = "unreachable"
    name: Name
    reason: Text
    """One sentence."""
    since: datetime | None = None
    """When it was last heard, or first missed."""
    last: ReachableNode | None = None
    """What it said when last heard; its replicas are kept in mind, never acted on."""


NodeObservation = Annotated[ReachableNode | UnreachableNode, Field(discriminator="kind")]


class Observation(Frozen):
    """All nodes at one instant, sorted by name."""

    nodes: tuple[NodeObservation, ...] = ()

    @property
    def reachable(self) -> tuple[ReachableNode, ...]:
        """The nodes that were heard."""
        return tuple(node for node in self.nodes if isinstance(node, ReachableNode))

    @property
    def unreachable(self) -> tuple[UnreachableNode, ...]:
        """The nodes that were not."""
        return tuple(node for node in self.nodes if isinstance(node, UnreachableNode))

    def replicas(self) -> Iterator[tuple[ReachableNode, ObservedReplica]]:
        """Every replica on a node that was heard, with its node."""
        for node in self.reachable:
            for replica in node.replicas:
                yield node, replica
