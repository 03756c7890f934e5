"""What supervision works with: the collaborators of every replica, constructed once by `serve`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import timedelta
    from pathlib import Path

    from reconciler.agent.clock import Clock
    from reconciler.agent.config import AgentConfig
    from reconciler.agent.drivers.base import Driver
    from reconciler.agent.gpus import Gpus
    from reconciler.agent.logs import EngineLogs
    from reconciler.agent.processes import Running
    from reconciler.agent.records import ReplicaRecord
    from reconciler.domain.model_spec import Engine
    from reconciler.engines.base import Answer, EngineSupport, Probe


class Prober(Protocol):
    """Sends probes to engines."""

    async def send(
        self,
        url: str,
        probe: Probe,
        timeout: timedelta,  # noqa: ASYNC109  # each has its own
        key: str | None = None,
    ) -> Answer:
        """The engine's answer; one without a status when there was none in time."""
        ...


@dataclass(frozen=True, slots=True)
class Tools:
    """Collaborators and facts that do not change while an agent runs."""

    config: AgentConfig
    boot_id: str
    clock: Clock
    driver: Driver
    prober: Prober
    support: Callable[[Engine], EngineSupport | None]
    locate: Callable[[str], Path]
    """A source's files on this node; WeightsError when they are not there. May block."""
    logs: EngineLogs
    running: Callable[[], Mapping[str, tuple[Running, ...]]]
    """Engines of this state directory in the process table, by log stem. Reads all processes: not for the loop."""
    environment: Mapping[str, str]
    """Of the agent; engines get a small part of it."""
    gpus: Gpus


class Home(Protocol):
    """What a replica asks of the node it lives on."""

    def save(self, record: ReplicaRecord) -> None:
        """Put it into the journal; JournalUnwritable when that is not possible."""
        ...

    def changed(self) -> None:
        """Something that an observation shows has changed."""
        ...

    def forget(self, replica_id: str) -> None:
        """The replica is gone, with its process."""
        ...

    def gpu_holder(self, record: ReplicaRecord, engines: Iterable[Running]) -> str | None:
        """Who holds a GPU of this one: another replica, or one of these engines that no replica accounts for."""
        ...

    def ports_taken(self, replica_id: str) -> Collection[int]:
        """Ports that other replicas chose."""
        ...

    def cores_taken(self, replica_id: str) -> Collection[int]:
        """CPU cores that were dealt out to other replicas."""
        ...

    def was_ready(self, digest: str) -> bool:
        """Whether this launch digest reached ready on this node."""
        ...

    def became_ready(self, record: ReplicaRecord) -> None:
        """Remember its launch digest and its load time."""
        ...

    def launch_failed(self, record: ReplicaRecord, why: str) -> None:
        """Remember a launch that ended before it answered."""
        ...
