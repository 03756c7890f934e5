"""One replica, supervised: each step looks at it once, acts, and says after how many seconds to look again.

What may be true when is decided in `lifecycle` and `stop_moves`; the acts of each phase are in `starting`, `serving`,
`ending` and `stopping`. Here are what they share, and the task that takes step after step.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from signal import SIGKILL
from typing import TYPE_CHECKING, assert_never

import anyio

from reconciler.agent import ending, lifecycle, serving, starting, stopping
from reconciler.agent.engine_keys import engine_key
from reconciler.agent.journal import JournalUnwritable
from reconciler.agent.logs import LogReader
from reconciler.agent.observing import Gauges, observe_replica
from reconciler.agent.plain import plain
from reconciler.domain.observed import ReplicaState
from reconciler.engines.base import Answer

if TYPE_CHECKING:
    from datetime import timedelta

    from reconciler.agent.clock import Moment
    from reconciler.agent.drivers.base import Exit, ProcessIdentity
    from reconciler.agent.records import ReplicaRecord
    from reconciler.agent.tools import Home, Tools
    from reconciler.domain.assignment import RunEntry, StopEntry
    from reconciler.domain.declaration import DeclaredAdapter
    from reconciler.domain.observed import ObservedReplica
    from reconciler.engines.base import EngineSupport, Paths, Probe

_log = logging.getLogger(__name__)

AFTER_A_MISTAKE = 5.0
"""Seconds until the next step after one that failed unexpectedly."""


@dataclass(slots=True)
class Watch:
    """What is known of one launch by watching it; begins anew with each launch, and with each agent."""

    log: LogReader
    progress_at: float
    """When the last step of its start was seen, on the monotonic clock."""
    key: str | None = field(default=None, repr=False)
    """The API key with which the engine was started."""
    gauges: Gauges = field(default_factory=Gauges)
    probe_pause: float = starting.FIRST_PROBE
    wrong_since: float | None = None
    misses: int = 0
    """Liveness probes in a row that were not OK."""
    idle_readings: int = 0
    """Readings in a row that found nothing in flight."""
    terminated: int = 0
    """SIGTERMs sent."""
    kills: int = 0
    """SIGKILLs sent to its group."""
    adopted: bool = False
    """Its process was taken over, not launched here: what it did before nobody saw."""
    looks: int = 0
    """Times it was asked whether it is ready."""
    adapters_for: tuple[DeclaredAdapter, ...] | None = None
    """The adapters that were wanted when its list was last held against them; None before that."""
    adapters_again_at: float | None = None
    """When those that it lacks are tried again, on the monotonic clock."""
    wrong: str | None = None
    """What was wrong with its last answer, while it answers wrongly."""
    paths: Paths | None = None
    """Where the files lie that it was started with here; None where it was taken over: they may be others by now."""
    token_at: float | None = None
    """When it was last asked for a token while it serves, on the monotonic clock."""
    busy_since: float | None = None
    """Since when its start, or the end of its stop, waits for its GPUs' memory, on the monotonic clock."""
    refused_since: float | None = None
    """Since when nothing listens where it is asked, on the monotonic clock; None while somebody does."""


class Replica:
    """One replica of this node."""

    def __init__(self, record: ReplicaRecord, tools: Tools, home: Home) -> None:
        self.record = record
        self.tools = tools
        self.home = home
        self.watch = self.fresh_watch()
        self._wake = anyio.Event()
        self._asking = anyio.CancelScope()
        self._exits: dict[ProcessIdentity, Exit] = {}
        self._waiting = anyio.Lock()
        self._saved = True

    # What the supervisor asks of it; none of these waits.

    def observe(self, moment: Moment) -> ObservedReplica:
        """As an observation shows it."""
        ever_ready = self.home.was_ready(self.record.entry.digest)
        return observe_replica(self.record, self.watch.gauges, moment, ever_ready=ever_ready)

    def reassign(self, entry: RunEntry) -> None:
        """Its entry was sent again."""
        record = lifecycle.reassigned(self.record, entry, self.now())
        if record != self.record:
            if record.entry.declaration.adapters != self.record.entry.declaration.adapters:
                self.watch.gauges.adapter_failure = None  # of others than are wanted now
            self.put(record)
            self.wake()

    def stop(self, entry: StopEntry) -> None:
        """Drain and stop it; its own steps finish that, whatever becomes of the reconciler."""
        if self.record.stop is None:
            self.watch.idle_readings = 0  # readings from before the withdrawal say nothing of the drain
        self.put(lifecycle.withdrawn(self.record, entry, self.now(), adopted=self.watch.adopted))
        self._asking.cancel()
        self.wake()

    def wake(self) -> None:
        """Look again now."""
        self._wake.set()

    def adopt(self, record: ReplicaRecord) -> None:
        """Take over a process that this agent did not launch."""
        self.watch = self.fresh_watch()
        self.watch.adopted = True
        self.put(record)

    def write_down(self, *, on_disk: bool = False) -> None:
        """Write its record, unless it is `on_disk` as it is.

        A journal that cannot be written stops nothing that runs: the process table and the assignment still tell the
        next agent what is here, and the supervisor writes again later.
        """
        if on_disk and self._saved:
            return
        try:
            self.home.save(self.record)
        except JournalUnwritable as error:
            if self._saved:
                _log.error("%s is %s and that is not on disk: %s", self.record.id, self.record.state, error.message)
            self._saved = False
        else:
            self._saved = True

    # Its task.

    async def run(self) -> None:
        """Supervise it until it is gone."""
        watched: ProcessIdentity | None = None
        async with anyio.create_task_group() as tasks:
            while (pause := await self.guarded_step()) is not None:
                identity = self.record.identity
                if identity is not None and identity != watched:
                    watched = identity
                    tasks.start_soon(self._wake_at_end, identity, name=f"end of {self.record.id}")
                with anyio.move_on_after(pause):
                    await self._wake.wait()
                self._wake = anyio.Event()
            tasks.cancel_scope.cancel()

    async def step(self) -> float | None:
        """Look once, act once; seconds until the next look, None when the replica is gone."""
        if self.record.stop is not None:
            return await stopping.stop(self, self.record.stop)
        match self.record.state:
            case ReplicaState.PENDING:
                return await starting.launch(self)
            case ReplicaState.STARTING:
                return await starting.start(self)
            case ReplicaState.READY | ReplicaState.UNHEALTHY:
                return await serving.serve(self)
            case ReplicaState.FAILED:
                return await ending.rest(self)
            case ReplicaState.DRAINING | ReplicaState.STOPPING:
                raise AssertionError(f"{self.record.id} is {self.record.state} and was not asked to stop")
            case unknown:
                assert_never(unknown)

    async def guarded_step(self) -> float | None:
        """`step`, or a pause when it failed unexpectedly."""
        try:
            return await self.step()
        except Exception:  # noqa: BLE001  # one step of one replica: the others, and this one's engine, must not suffer
            _log.exception("%s: a step of its supervision failed; looking again in 5 s", self.record.id)
            return AFTER_A_MISTAKE

    async def _wake_at_end(self, identity: ProcessIdentity) -> None:
        await self.exit_of(identity)
        self._asking.cancel()
        self.wake()

    # What the phases share. None of these but `ask` and `exit_of` waits.

    def now(self) -> Moment:
        """Both clocks."""
        return self.tools.clock.read()

    def engine(self) -> EngineSupport | None:
        """The engine module; None when this version has none for it."""
        return self.tools.support(self.record.entry.declaration.engine)

    def leads(self) -> bool:
        """Whether requests are answered on this node; on other nodes of a replica an engine only computes."""
        return self.record.entry.placement.nodes[:1] == (self.tools.config.node,)

    def fresh_watch(self) -> Watch:
        """A watch for a launch, or for a process that was adopted."""
        config = self.tools.config
        key = engine_key(self.record.entry, self.engine(), config.secrets, config.directory)
        return Watch(LogReader(self.tools.logs.path(self.record.id)), self.now().seconds, key)

    def put(self, record: ReplicaRecord) -> None:
        """Hold this record from now on, and write it down."""
        if record == self.record:
            return
        self.record = record
        self.write_down()
        self.home.changed()

    def say(self, stage: str, progress: str | None = None) -> None:
        """It is at this stage of its start, so far; a new one is progress, and so is a further step of the same.

        Steps ride along in observations: with hundreds of shards they would wake whoever waits for a transition.
        """
        gauges, stage = self.watch.gauges, plain(stage)
        if (stage, progress) != (gauges.stage, gauges.progress):
            moved = stage != gauges.stage
            gauges.stage, gauges.progress = stage, progress
            self.watch.progress_at = self.now().seconds
            if moved:
                self.home.changed()

    async def ask(self, probe: Probe, within: timedelta) -> Answer:
        """Send one probe; no answer when a stop or the end of the process comes first."""
        if self.record.url is None:
            return Answer(None)
        with anyio.CancelScope() as self._asking:
            answer = await self.tools.prober.send(self.record.url, probe, within, self.watch.key)
            if not answer.refused:
                self.watch.refused_since = None
            elif self.watch.refused_since is None:
                self.watch.refused_since = self.now().seconds
            return answer
        return Answer(None)

    def leader_gone_for(self) -> float:
        """Seconds for which nothing has listened where its leader answers; 0 for what leads, which knows its own."""
        since = self.watch.refused_since
        return 0.0 if self.leads() or since is None else self.now().seconds - since

    def alive(self) -> bool:
        """Whether its process runs."""
        identity = self.record.identity
        return identity is not None and self.tools.driver.alive(identity)

    async def exit_of(self, identity: ProcessIdentity) -> Exit:
        """How this process of it ended, once it has; the driver tells only once, so the answer is kept."""
        async with self._waiting:
            if identity not in self._exits:
                self._exits = {identity: await self.tools.driver.wait(identity)}
            return self._exits[identity]

    def fail(self, why: str) -> None:
        """Its launch has ended."""
        why = plain(why)
        _log.warning("%s: failed: %s", self.record.id, why)
        if self.record.state not in lifecycle.SERVING:
            self.home.launch_failed(self.record, why)
        ever_ready = self.home.was_ready(self.record.entry.digest)
        self.put(lifecycle.ended(self.record, why, self.now(), ever_ready=ever_ready))

    def kill(self, why: str) -> float:
        """End its process group at once: it cannot be helped. Seconds until the next look."""
        self.kill_group()
        self.fail(why)
        return ending.GROUP_CHECK

    def kill_group(self) -> None:
        """SIGKILL to everything that is left of it."""
        if self.record.identity is not None:
            self.tools.driver.signal_group(self.record.identity, SIGKILL)
            self.watch.kills += 1
