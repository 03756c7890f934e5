"""What every engine module answers, and the values it answers with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from reconciler.domain import port_blocks
from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.domain.model_spec import Engine
    from reconciler.domain.placement import PlacedGpu
    from reconciler.engines.progress import Progress
    from reconciler.engines.secret_settings import SecretSettings


class CannotLaunch(ReconcilerError):
    """A declaration that cannot be put into a command line on this node, with the reason."""


class Vendor(StrEnum):
    """Who made the GPUs of a node: each has variables of its own for which of them a process sees."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    """Gaudi."""


class Port(IntEnum):
    """What each port of a replica's block of 16 is for: the distance from the first.

    A replica of one node listens on the first only, and a block is never needed for it.
    """

    HTTP = 0
    RENDEZVOUS = 1
    """Where the processes of all nodes meet, on the leader; SGLang counts on up to six more behind it."""
    DATA_PARALLEL = 8
    """Where data-parallel ranks of other nodes report, on the leader."""
    COLLECTIVES = 9
    """NCCL's own meeting point, where an engine lets it be chosen."""
    BOOTSTRAP = 10
    """What an engine tells its other parts about itself."""
    FURTHER = 11
    """The first of five that an engine takes as it needs them."""


PORT_BLOCK = port_blocks.PORT_BLOCK


@dataclass(frozen=True, slots=True)
class Site:
    """What only the node knows at launch: paths of the weights on it, addresses, GPUs."""

    host: str
    """Address to listen on for requests."""
    port: int
    """First of the replica's port block: HTTP. On every node of a replica the same."""
    model_path: str
    mmproj_path: str | None = None
    adapter_paths: Mapping[str, str] = field(default_factory=dict)
    """By adapter name."""
    gpus: tuple[PlacedGpu, ...] = ()
    vendor: Vendor = Vendor.NVIDIA
    """Of `gpus`."""
    numa_nodes: tuple[int, ...] = ()
    """NUMA node of each GPU, in the order of `gpus`; empty where one is not known, or the node has no numactl."""
    addresses: tuple[str, ...] = ()
    """Under which the nodes of the replica reach each other, in the order of its shards: the first one leads. Empty
    for a replica of one node."""
    rank: int = 0
    """Which of `addresses` this node is."""
    cores: tuple[int, ...] = ()
    """CPU cores that are this replica's alone, for one on CPUs; empty where they are not dealt out."""
    weight_bytes: int | None = None
    """Size of the model's files on this node; None when nobody looked."""
    vocabulary_bytes: int | None = None
    """Of them the embedding and the output head, for a replica on CPUs; None where nobody looked or could tell."""
    adapter_ranks: Mapping[str, int] = field(default_factory=dict)
    """By adapter name, as far as their own files tell."""
    cache_dir: str | None = None
    """Where compiled kernels are kept over restarts: a directory of its own for each engine version and GPU class."""
    directory: str | None = None
    """A directory of this replica alone, made before it starts; `Launch.files` go into it. None without one."""
    command: tuple[str, ...] = ()
    """The words that start the engine on this node, from the agent's config; `Launch.arguments` follow them."""
    interpreter: str = "python3"
    """The agent's own Python, where an engine is started by a program of ours."""

    @property
    def leader(self) -> str:
        """Address of the first node; this one's own for a replica of one node."""
        return self.addresses[0] if self.addresses else self.host

    @property
    def address(self) -> str:
        """Under which the other nodes reach this one."""
        return self.addresses[self.rank] if self.addresses else self.host

    @property
    def leads(self) -> bool:
        """Whether requests are answered here; the other nodes of a replica only compute."""
        return self.rank == 0

    def port_of(self, port: Port) -> int:
        """One port of the block."""
        return self.port + port


@dataclass(frozen=True, slots=True)
class Launch:
    """One engine process: arguments after the program that the agent's config names, and environment on top of its own.

    Declared environment and secrets are not in here: the agent adds them, declared first, so that ours win.
    """

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    url: str
    """Base URL on which the replica will answer: the leader's on every node of it."""
    serves: bool = True
    """False on the nodes of a replica that only compute: such a process is as well as its leader is."""
    files: Mapping[str, str | SecretSettings] = field(default_factory=dict)
    """What stands in `Site.directory` when it starts, by file name: settings that an engine takes from files only."""
    launcher: tuple[str, ...] = ()
    """Words before the engine's command: the program that starts it, where it does not start by itself."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One HTTP request to the engine; relative to its base URL."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    form: Mapping[str, str] | None = None
    """Fields of a multipart form, instead of a body."""
    upload: bytes | None = None
    """The form's file, sent as `file`."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Where on its node the files lie that an engine was started with: some name themselves in its answers."""

    model: str
    adapters: Mapping[str, str] = field(default_factory=dict)
    """By adapter name."""


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
    refused: bool = False
    """There was none because nothing listens on the port: unlike silence this says that no engine serves there now."""


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
    """Once drained: SIGTERM, the same again after `repeat_after`, SIGKILL to its process group after `kill_after`."""

    repeat_after: timedelta
    kill_after: timedelta
    idle_for: timedelta = timedelta(seconds=0.5)
    """How long nothing must be in flight until its drain is over; two readings at the least, since one may fall between
    two requests of a conversation. Longer where a request that is computed may look like none."""


class EngineSupport(Protocol):
    """One engine."""

    kind: Engine
    install_hint: str
    """The command that installs it, for when the agent misses it."""
    stop: StopBehaviour
    key_env: tuple[str, ...]
    """Variables in which an API key is declared: the value of the first that is goes with every probe, as a bearer
    token. The engine gets it by that variable, or in a file of `Launch.files`; never on its command line, which every
    user of the node can read. None where it takes no key."""

    def launch(self, declaration: Declaration, site: Site) -> Launch:
        """The command line of a replica on one of its nodes; no default of the engine decides GPUs, memory or address.

        Declared `args` stand where they are read last. Raises CannotLaunch where the node's side does not allow it.
        """
        ...

    def readiness(self, declaration: Declaration) -> tuple[Probe, ...]:
        """Requests to send in order; the replica is ready when each was judged OK."""
        ...

    def judge(self, declaration: Declaration, probe: Probe, answer: Answer, paths: Paths | None = None) -> Verdict:
        """Read the answer to a readiness or liveness probe; what only `paths` tell is believed without them."""
        ...

    def liveness(self) -> Probe:
        """A cheap request for while it serves."""
        ...

    def load(self) -> Probe:
        """The request that tells how many requests are in flight."""
        ...

    def read_load(self, answer: Answer) -> InFlight | None:
        """Read the answer to `load`, under the names of every known version; None when it does not tell."""
        ...

    def load_adapter(self, declaration: Declaration, name: str, path: str) -> Probe | None:
        """The request that loads an adapter into the running engine; None where that takes a restart."""
        ...

    def unload_adapter(self, declaration: Declaration, name: str) -> Probe | None:
        """The request that takes one out; None where that takes a restart."""
        ...

    def adapters(self) -> Probe | None:
        """The request that lists the adapters it has; None where it does not tell."""
        ...

    def read_adapters(self, answer: Answer) -> frozenset[str] | None:
        """Names of the adapters it has, from the answer to `adapters`; None when the answer does not tell."""
        ...

    def read_progress(self, line: str) -> Progress | None:
        """What one line of the engine's log says of its start, if anything."""
        ...

    def read_failure(self, tail: str) -> str | None:
        """One sentence on why it ended, from the tail of its log; None when the log does not tell."""
        ...
