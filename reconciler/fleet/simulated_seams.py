"""The two seams of a simulated node: what its replicas ask of it, and what it cannot know by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from reconciler.domain.assignment import RunEntry
    from reconciler.fleet.simulated_engine import Course, EngineProcess
    from reconciler.fleet.simulated_replica import SimulatedReplica


class Home(Protocol):
    """What a replica asks of its node."""

    def holder(self, replica: SimulatedReplica, now: float) -> str | None:
        """Which other replica still holds a GPU of it; None where none does."""
        ...

    def launch(self, replica: SimulatedReplica, now: float) -> EngineProcess:
        """Start its process, on GPUs that no other replica holds."""
        ...

    def leads(self, replica: SimulatedReplica) -> bool:
        """Whether requests are answered on this node; on other nodes of a replica an engine only computes."""
        ...

    def parts(self, replica: SimulatedReplica) -> tuple[EngineProcess | None, ...]:
        """Its processes on other nodes; () for a replica of one node."""
        ...

    def was_ready(self, replica: SimulatedReplica) -> bool:
        """Whether its launch digest reached ready on this node."""
        ...

    def became_ready(self, replica: SimulatedReplica) -> None:
        """Remember its launch digest and its load time."""
        ...

    def launch_failed(self, replica: SimulatedReplica, why: str, now: float) -> None:
        """Remember a launch that ended before it answered."""
        ...


class Surroundings(Protocol):
    """What a node cannot know by itself."""

    def course(self, entry: RunEntry, node: str) -> Course:
        """How the next launch of this entry on this node goes."""
        ...

    def parts(self, entry: RunEntry, node: str) -> tuple[EngineProcess | None, ...]:
        """The processes of this replica on its other nodes."""
        ...

    def changed(self, node: str, replica: SimulatedReplica, at: float) -> None:
        """A replica has changed, or is gone."""
        ...
