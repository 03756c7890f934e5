"""One node's supervisor without a machine: fake driver, scripted engine, and a clock that only tests move."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from reconciler.agent.config import AgentConfig
from reconciler.agent.gpus import DeclaredGpus, Gpus
from reconciler.agent.journal import Journal
from reconciler.agent.logs import EngineLogs
from reconciler.agent.records import ReplicaRecord
from reconciler.agent.starting import FIRST_PROBE
from reconciler.agent.supervisor import Supervisor
from reconciler.agent.tools import Tools
from reconciler.domain.assignment import Entry, Refusal, RunEntry
from reconciler.domain.model_spec import Engine
from reconciler.engines.base import Answer, Health, InFlight, Launch, Probe, StopBehaviour, Verdict
from reconciler.engines.progress import Progress, Stage
from reconciler.errors import WeightsError
from tests.agent.entries import NODE, assignment, claim_request, moment
from tests.agent.fake_driver import FakeDriver

if TYPE_CHECKING:
    from reconciler.agent.clock import Moment
    from reconciler.agent.processes import Running
    from reconciler.agent.replica import Replica
    from reconciler.domain.declaration import Declaration
    from reconciler.domain.observed import ObservedReplica, ReachableNode
    from reconciler.engines.base import Paths, Site

HEALTH, TOKEN, LOAD = Probe("GET", "/health"), Probe("POST", "/token"), Probe("GET", "/load")
OK, LOADING, SILENT = Answer(200), Answer(503, b"loading"), Answer(None)
WRONG = Answer(409, b"another model answers")


class ScriptedEngine:
    """An engine whose answers mean what their status says, and whose log announces stages and failures in clear."""

    kind = Engine.LLAMACPP
    install_hint = "pip install scripted"
    stop = StopBehaviour(repeat_after=timedelta(seconds=5), kill_after=timedelta(seconds=15))
    key_env: tuple[str, ...] = ("SCRIPTED_KEY",)

    def launch(self, declaration: Declaration, site: Site) -> Launch:
        arguments = ("--model", site.model_path, "--port", str(site.port), "--alias", declaration.model)
        return Launch(arguments, {"OURS": "wins"}, f"http://{site.host}:{site.port}")

    def readiness(self, declaration: Declaration) -> tuple[Probe, ...]:
        return (HEALTH, Probe("POST", TOKEN.path, {"model": declaration.model}))

    def judge(self, declaration: Declaration, probe: Probe, answer: Answer, paths: Paths | None = None) -> Verdict:  # noqa: ARG002  # nor does it name any
        healths = {None: Health.SILENT, 200: Health.OK, 503: Health.LOADING, 409: Health.WRONG}
        words = f"{probe.path} of {declaration.model} answers {answer.status}"
        return Verdict(healths[answer.status], answer.body.decode() or words)

    def liveness(self) -> Probe:
        return HEALTH

    def load(self) -> Probe:
        return LOAD

    def read_load(self, answer: Answer) -> InFlight | None:
        return InFlight(*map(int, answer.body.split())) if answer.status == 200 else None

    def load_adapter(self, declaration: Declaration, name: str, path: str) -> Probe | None:
        return Probe("POST", "/adapters", {"name": name, "path": path, "model": declaration.model})

    def unload_adapter(self, declaration: Declaration, name: str) -> Probe | None:
        return Probe("DELETE", "/adapters", {"name": name, "model": declaration.model})

    def adapters(self) -> Probe | None:
        return Probe("GET", "/adapters")

    def read_adapters(self, answer: Answer) -> frozenset[str] | None:
        return frozenset(answer.body.decode().split()) if answer.status == 200 else None

    def read_progress(self, line: str) -> Progress | None:
        """`stage: loading weights`, or `stage: loading weights, 3 of 10`."""
        if not line.startswith("stage: "):
            return None
        stage, _, counted = line.removeprefix("stage: ").partition(", ")
        done, _, total = counted.partition(" of ")
        return Progress(Stage(stage), int(done), int(total), "shards") if counted else Progress(Stage(stage))

    def read_failure(self, tail: str) -> str | None:
        return next((line[9:] for line in tail.splitlines() if line.startswith("failure: ")), None)


class ScriptedProber:
    """Answers by path; what is not scripted is silent."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, str, timedelta]] = []
        self.keys: set[str | None] = set()
        self.hangs = False

    async def send(
        self,
        url: str,
        probe: Probe,
        timeout: timedelta,  # noqa: ASYNC109  # as in Prober
        key: str | None = None,
    ) -> Answer:
        self.asked.append((url, probe.path, timeout))
        self.keys.add(key)
        if self.hangs:
            await anyio.sleep_forever()
        return self.answers.get(probe.path, SILENT)


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def read(self) -> Moment:
        return moment(self.seconds)


@dataclass
class Bench:
    """A node under test; `restart` is the agent killed and started again."""

    directory: Path
    config: AgentConfig = field(init=False)
    driver: FakeDriver = field(default_factory=FakeDriver)
    prober: ScriptedProber = field(default_factory=ScriptedProber)
    clock: ManualClock = field(default_factory=ManualClock)
    missing: set[str] = field(default_factory=set)
    kind: Engine = Engine.LLAMACPP
    """The engine that its scripted one goes for."""
    engine: ScriptedEngine = field(default_factory=ScriptedEngine)
    generation: int = 0
    epoch: int = 0
    running: dict[str, tuple[Running, ...]] = field(default_factory=dict)
    """The process table, as the next look finds it."""
    gpus: Gpus = field(init=False)
    """Declared, unless a test measures some."""

    def __post_init__(self) -> None:
        self.config = AgentConfig(
            node=NODE,
            listen="unix:/nowhere",
            state_dir=self.directory,
            gpus=("l4", "l4"),
            engines={self.kind: ("scripted-server", "--quiet")},
        )
        self.gpus = DeclaredGpus(self.config)
        self.environment = {"PATH": "/bin", "AWS_SECRET": "x", "HOME": "/home/ada"}
        self.restart()

    def restart(self) -> None:
        """A new agent on the same journal; processes go on, unless the machine got another boot id."""
        self.logs = EngineLogs(self.config.directory / "logs")
        tools = Tools(
            config=self.config,
            boot_id=self.driver.boot_id,
            clock=self.clock,
            driver=self.driver,
            prober=self.prober,
            support=lambda kind: self.engine if kind is self.kind else None,
            locate=self._locate,
            logs=self.logs,
            running=lambda: self.running,
            environment=self.environment,
            gpus=self.gpus,
        )
        self.supervisor = Supervisor(tools, Journal(self.config.directory), self.running)

    def _locate(self, source: str) -> Path:
        if source in self.missing:
            raise WeightsError(f"{source}: no such file")
        return Path(source.removeprefix("file:"))

    def claim(self) -> int:
        granted = self.supervisor.claim(claim_request(ttl=3_600, epoch=self.epoch or None))
        assert not isinstance(granted, Refusal), granted
        self.epoch = granted.epoch
        return granted.epoch

    async def send(self, *entries: Entry) -> None:
        """The next assignment; it must be taken, and every replica takes its steps."""
        self.claim()
        self.generation += 1
        answer = self.supervisor.assign(assignment(*entries, epoch=self.epoch, generation=self.generation))
        assert not isinstance(answer, Refusal), answer
        await self.settle()

    async def settle(self) -> None:
        """Steps until every replica waits for something."""
        for _ in range(30):
            pauses = [await replica.step() for replica in self._replicas()]
            if all(pause is None or pause > FIRST_PROBE for pause in pauses):
                return
        raise AssertionError("it never rests")

    async def after(self, seconds: float) -> None:
        """Let time pass at once, then take the steps that are due."""
        self.clock.seconds += seconds
        await self.settle()

    async def through(self, seconds: float, *, every: float = 5) -> None:
        """Let time pass bit by bit."""
        for _ in range(int(seconds / every)):
            await self.after(every)

    async def serve(self, entry: RunEntry | None = None) -> ObservedReplica:
        """A replica that is ready."""
        self.prober.answers |= {HEALTH.path: OK, TOKEN.path: OK, LOAD.path: Answer(200, b"0 0")}
        await self.send(*([] if entry is None else [entry]))
        return self.one()

    def _replicas(self) -> list[Replica]:
        return list(self.supervisor._replicas.values())

    def node(self) -> ReachableNode:
        return self.supervisor.observe()

    def one(self) -> ObservedReplica:
        (replica,) = self.node().replicas
        return replica

    def record(self) -> ReplicaRecord:
        """As it is on disk."""
        (path,) = (self.config.directory / "replicas").glob("*.json")
        return ReplicaRecord.model_validate_json(path.read_bytes())

    def records(self) -> list[Path]:
        return sorted((self.config.directory / "replicas").glob("*.json"))

    def write_log(self, replica_id: str, text: str) -> None:
        with self.logs.path(replica_id).open("a", encoding="utf-8") as log:
            log.write(text)
