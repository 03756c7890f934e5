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
from reconciler.domain.base import Count, Flag, Frozen, Name, Positive, Replicas, Text
from reconciler.domain.declaration import DeclaredAdapter
from reconciler.domain.port_blocks import PortRange

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
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Before the first no agent ran; an instant at the calendar's edge could not be shown in other time zones."""

_LONGEST = timedelta(days=36_500)
Elapsed = Annotated[timedelta, Field(ge=-_LONGEST, le=_LONGEST)]
"""A span that an agent measured. Further time is added to it, which a span at the edge of its type would not bear."""
Seconds = Annotated[float, Field(ge=0, le=_LONGEST.total_seconds(), allow_inf_nan=False)]


class GpuLinks(Frozen):
    """What a GPU shares with others of its node; names mean something on this node only, None is not known."""

    nvlink: Text | None = None
    """GPUs with the same name reach each other over NVLink, every pair of them."""
    switch: Text | None = None
    """The PCIe switch it hangs on."""
    numa: Count | None = None
    """The NUMA node of that."""


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
    links: GpuLinks | None = Field(default=None, exclude_if=lambda links: links is None)
    """None where the agent does not know; then it is not sent, so that an older reconciler reads it too."""


class ObservedReplica(Frozen):
    """One replica that this fleet's agent holds."""

    entry: RunEntry
    """What the agent was told to run; kept when it is told to stop."""
    state: ReplicaState
    state_for: Elapsed = timedelta()
    """How long it has been in this state, when the observation was answered."""
    since: datetime | None = Field(default=None, ge=EARLIEST, le=LATEST)
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
    idle_for: Elapsed | None = Field(default=None, exclude_if=lambda idle: idle is None)
    """How long every reading found no request in flight; None when that is not known, or one is. A gauge too.

    Readings are seconds apart: a request shorter than that may be missed.
    """
    failure: str | None = None
    ever_ready: Flag = False
    """Whether this launch digest reached ready on this node at least once."""
    failures_in_a_row: Count = 0
    """Launches that ended by themselves since the last one that served for a minute."""
    load_seconds: Seconds | None = None
    """From launch to ready, the last time."""
    adapters: tuple[DeclaredAdapter, ...] | None = Field(default=None, exclude_if=lambda adapters: adapters is None)
    """What its engine has loaded, as it lists them, each with the source it was loaded from. None, and not sent, where
    nobody has asked, or the engine does not tell."""
    adapter_failure: str | None = Field(default=None, exclude_if=lambda failure: failure is None)
    """Why it has not those that it should have, in one sentence."""

    @property
    def id(self) -> str:
        """Its replica id."""
        return self.entry.id

    @property
    def lacks_adapters(self) -> bool:
        """Whether its engine has others than it should have, and can load them.

        One that is starting gets them with its start; one that takes them only then is not cured by waiting.
        """
        declared = self.entry.declaration
        if self.state is not ReplicaState.READY or self.adapters is None or not declared.loads_adapters:
            return False
        return set(self.adapters) != set(declared.adapters)


class ForeignProcess(Frozen):
    """A process on a GPU that this fleet did not start: reported, never touched."""

    pid: int
    command: str
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs it holds."""


class LoadTime(Frozen):
    """How long a model last took from launch to ready on a node; for estimates only."""

    model: Name
    seconds: Seconds


class FailedLaunch(Frozen):
    """A launch that ended before it answered; remembered though its replica is gone."""

    model: Name
    ordinal: Replicas
    digest: Text
    """Launch digest."""
    retry: Text | None = None
    """Of the entry that it was launched by."""
    failure: Text
    """Why, in one sentence."""


class FailedStarts(Frozen):
    """Launches on one node that ended before they answered, one after the other."""

    in_a_row: Positive
    """Since the last launch that came up."""
    last_for: Elapsed = timedelta()
    """How long ago the last of them ended."""


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
    gpu_problems: tuple[str, ...] = Field(default=(), exclude_if=lambda problems: not problems)
    """What a person should know of its GPUs: those that do not answer, and what contradicts the declaration. One
    sentence each; not sent where there is none, so that an older reconciler reads it too."""
    engines: tuple[Text, ...] = ()
    """Engines that the agent's config lists and that are installed."""
    replicas: tuple[ObservedReplica, ...] = ()
    foreign: tuple[ForeignProcess, ...] = ()
    load_times: tuple[LoadTime, ...] = ()
    failed_starts: FailedStarts | None = Field(default=None, exclude_if=lambda failed: failed is None)
    """None where the last launch came up; then it is not sent."""
    failed_launches: tuple[FailedLaunch, ...] = Field(default=(), exclude_if=lambda failed: not failed)
    """By slot and launch digest, the newest of each, until that digest comes up there."""
    block_ports: PortRange | None = Field(default=None, exclude_if=lambda ports: ports is None)
    """From which replicas over several nodes get their ports; None, and not sent, where it is the usual range."""
    last_good: tuple[RunEntry, ...] = Field(default=(), exclude_if=lambda good: not good)
    """What reached ready last in each slot, where that is not what runs there now: once a launch has failed there, and
    for an hour after it left, since its successor may fail on another node."""

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
    """What happened, as one clause whose subject is the node or its address."""
    since: datetime | None = None
    """When it was last heard, on the reconciler's wall clock; None where it never was, or nobody remembers."""
    silent_for: timedelta | None = None
    """How long ago it was first missed, on the observer's own clock; None where it was not heard before."""
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
