"""What every engine module answers, and the values it answers with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.domain.model_spec import Engine
    from reconciler.domain.placement import PlacedGpu


@dataclass(frozen=True, slots=True)
class Site:
    """What only the node knows at launch: paths of the weights on it, addresses, GPUs."""

    host: str
    """Address to listen on."""
    port: int
    """First of the replica's port block: HTTP."""
    model_path: str
    mmproj_path: str | None = None
    adapter_paths: Mapping[str, str] = field(default_factory=dict)
    """By adapter name."""
    gpus: tuple[PlacedGpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """One engine process: arguments after the program that the agent's config names, and environment on top of its own.

    Declared environment and secrets are not in here: the agent adds them, declared first, so that ours win.
    """

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    url: str
    """Base URL it will answer on."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One HTTP request to the engine; relative to its base URL."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


class Health(StrEnum):
    """What an answer, or its absence, says of the engine."""

    OK = "ok"
    LOADING = "loading"
    """It answers that it is not ready yet."""
    WRONG = "wrong"
    """It answers, and not as this replica should: another model's name, no token. Waiting will not cure it."""
    SILENT = "silent"
    """No answer, or one that says nothing yet."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A probe's HTTP answer; `status` None when there was none."""

    status: int | None
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one answer was read; `detail` is one sentence for people."""

    health: Health
    detail: str = ""


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests inside the engine."""

    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class StopBehaviour:
    """How it is signalled: SIGTERM at once, again after `repeat_after`, SIGKILL to its group after `kill_after`."""

    repeat_after: timedelta
    kill_after: timedelta


class EngineSupport(Protocol):
    """One engine."""

    kind: Engine
    install_hint: str
    """The command that installs it, for when the agent misses it."""
    stop: StopBehaviour

    def launch(self, declaration: Declaration, site: Site) -> Launch:
        """The command line of a replica; no default of the engine decides GPUs, memory or address."""
        ...

    def readiness(self, declaration: Declaration) -> tuple[Probe, ...]:
        """Requests to send in order; the replica is ready when each was judged OK."""
        ...

    def judge(self, declaration: Declaration, probe: Probe, answer: Answer) -> Verdict:
        """Read the answer to one readiness or liveness probe."""
        ...

    def liveness(self) -> Probe:
        """A cheap request for while it serves."""
        ...

    def load(self) -> Probe:
        """The request that tells how many requests are in flight."""
        ...

    def read_load(self, answer: Answer) -> InFlight | None:
        """Read the answer to `load`; None when it does not tell."""
        ...

    def read_stage(self, line: str) -> str | None:
        """The loading stage that one line of the engine's log announces, if it announces one."""
        ...

    def read_failure(self, tail: str) -> str | None:
        """One sentence on why it ended, from the tail of its log; None when the log does not tell."""
        ...
