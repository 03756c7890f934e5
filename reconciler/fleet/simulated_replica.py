"""One replica as a simulated agent keeps it: the same steps as a real one takes, at the instants at which they are due.

`step` takes every step that is due and is silent about the rest; `due_at` says when it wants to be asked next.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Protocol, assert_never

from reconciler.domain.observed import ObservedReplica, ReplicaState

if TYPE_CHECKING:
    from datetime import datetime

    from reconciler.domain.assignment import RunEntry, StopEntry
    from reconciler.fleet.simulated_engine import EngineProcess

# The real agent's pace: reconciler/agent/lifecycle.py and serving.py give the reasons.
FIRST_RETRY = 10.0
LONGEST_RETRY = 300.0
SERVED_AFTER = 60.0
UNHEALTHY_AFTER = 18.0
"""Three misses, five seconds apart, the last of which takes three to be one."""
UNHEALTHY_UNTIL_KILLED = 60.0

_SERVING = frozenset({ReplicaState.READY, ReplicaState.UNHEALTHY})


class Home(Protocol):
    """What a replica asks of its node."""

    def launch(self, replica: SimulatedReplica, now: float) -> EngineProcess | None:
        """Start its process; None while something else holds its GPUs."""
        ...

    def others_answer(self, replica: SimulatedReplica, now: float) -> bool:
        """Whether every part of it on other nodes is loaded; True for a replica of one node."""
        ...

    def others_are_gone(self, replica: SimulatedReplica, now: float) -> bool:
        """Whether the process of a part of it on another node has ended."""
        ...

    def was_ready(self, digest: str) -> bool:
        """Whether this launch digest reached ready on this node."""
        ...

    def became_ready(self, replica: SimulatedReplica) -> None:
        """Remember its launch digest and its load time."""
        ...


@dataclass(slots=True)
class SimulatedReplica:
    """One replica of one node. Every instant is in seconds of the node's monotonic clock."""

    entry: RunEntry
    state: ReplicaState
    since: float
    process: EngineProcess | None = None
    """Until its GPUs' memory is measured free."""
    ready_at: float | None = None
    load_seconds: float | None = None
    failure: str | None = None
    failures_in_a_row: int = 0
    retry_at: float = inf
    stop: StopEntry | None = None
    signalled: bool = False

    @property
    def id(self) -> str:
        """Its replica id."""
        return self.entry.id

    @property
    def has_process(self) -> bool:
        """Whether it holds GPUs."""
        return self.process is not None

    # What the node asks of it.

    def reassign(self, entry: RunEntry, now: float) -> bool:
        """Its entry was sent again; whether anything changed. Only a higher attempt launches, and only what failed."""
        higher = entry.attempt > self.entry.attempt
        kept = entry if higher else entry.model_copy(update={"attempt": self.entry.attempt})
        changed, self.entry = kept != self.entry, kept
        if higher and self.state is ReplicaState.FAILED:
            self._again(now)
        return changed

    def begin_stop(self, entry: StopEntry, now: float) -> bool:
        """It was told to stop; whether that is news. What serves is drained first."""
        if self.stop is not None:
            self.stop = entry  # the newest delays hold, and what has begun goes on
            return False
        drains = self.state in _SERVING
        self.stop, self.retry_at = entry, inf
        self._enter(ReplicaState.DRAINING if drains else ReplicaState.STOPPING, now)
        return True

    def adopt(self, now: float, *, rebooted: bool, ever_ready: bool) -> bool:
        """Its agent has come back; whether the replica is still there."""
        if self.process is not None and now >= self.process.free_at and (rebooted or self.stop is not None):
            self.process = None
        if self.process is not None and now < self.process.gone_at:
            return True
        if self.stop is not None:
            return self.process is not None
        if rebooted and (self.state is not ReplicaState.FAILED or ever_ready):
            self._again(now)
        elif self.state not in {ReplicaState.PENDING, ReplicaState.FAILED}:
            self._fail("ended while no agent was watching", now, ever_ready=ever_ready)
        return True

    def step(self, home: Home, now: float) -> bool:
        """Take the steps that are due; whether anything changed. `is_gone` tells afterwards whether it is there."""
        before = (self.state, self.process, self.failures_in_a_row)
        if self.process is not None and now >= self.process.free_at and self.state in _GONE_IN:
            self.process = None
        if self.stop is not None:
            self._step_stop(now)
        else:
            self._step(home, now)
        return before != (self.state, self.process, self.failures_in_a_row)

    @property
    def is_gone(self) -> bool:
        """Whether it has been stopped and holds nothing any more."""
        return self.stop is not None and self.process is None

    def due_at(self, now: float) -> float:
        """The next instant at which `step` would change something by itself."""
        return min((at for at in self._instants() if at > now), default=inf)

    def observe(self, now: float, at: datetime, *, address: str, ever_ready: bool) -> ObservedReplica:
        """As an observation shows it."""
        waits = self.state in {ReplicaState.PENDING, ReplicaState.STARTING}
        return ObservedReplica(
            entry=self.entry,
            state=self.state,
            state_for=timedelta(seconds=now - self.since),
            since=at,
            stage="loading" if waits and self.process is not None else None,
            routable=self.state is ReplicaState.READY,
            address=address if self.process is not None else None,
            pid=self.process.pid if self.process is not None else None,
            running=0 if self.state in _SERVING else None,
            waiting=0 if self.state in _SERVING else None,
            failure=self.failure,
            ever_ready=ever_ready,
            failures_in_a_row=self.failures_in_a_row,
            load_seconds=self.load_seconds,
        )

    # Its steps.

    def _step(self, home: Home, now: float) -> None:
        match self.state:
            case ReplicaState.PENDING:
                if self.process is None and (process := home.launch(self, now)) is not None:
                    self.process = process
                    self._enter(ReplicaState.STARTING, now)
            case ReplicaState.STARTING:
                self._start(home, now)
            case ReplicaState.READY | ReplicaState.UNHEALTHY:
                self._serve(home, now)
            case ReplicaState.FAILED:
                if self.process is None and now >= self.retry_at:
                    self._again(now)
            case ReplicaState.DRAINING | ReplicaState.STOPPING:
                raise AssertionError(f"{self.id} is {self.state} and was not asked to stop")
            case unknown:
                assert_never(unknown)

    def _start(self, home: Home, now: float) -> None:
        process = self._running()
        if now >= process.gone_at:
            self._fail(process.why, now, ever_ready=home.was_ready(self.entry.digest))
        elif process.answers(now) and home.others_answer(self, now):
            self.ready_at, self.load_seconds = now, round(now - process.launched_at, 3)
            self._enter(ReplicaState.READY, now)
            home.became_ready(self)
        elif now >= self._ready_deadline():
            allowed = self.entry.ready_timeout.total_seconds()
            process.end(now)
            why = f"not ready, and no progress for {allowed:.0f} s (loading)"
            self._fail(why, now, ever_ready=home.was_ready(self.entry.digest))

    def _serve(self, home: Home, now: float) -> None:
        process = self._running()
        if home.others_are_gone(self, now):
            process.end(now, "a part of it on another node has ended")
        if now >= process.gone_at:
            self._fail(process.why, now, ever_ready=True)
        elif self.state is ReplicaState.UNHEALTHY and process.mute_since is None:
            self._enter(ReplicaState.READY, now)
        elif self.state is ReplicaState.UNHEALTHY and now >= self.since + UNHEALTHY_UNTIL_KILLED:
            process.end(now)
            self._fail(f"stopped answering for {UNHEALTHY_UNTIL_KILLED:.0f} s and was killed", now, ever_ready=True)
        elif self.state is ReplicaState.READY and now >= self._unhealthy_at():
            self._enter(ReplicaState.UNHEALTHY, now)
        elif now >= self._served_at():
            self.failures_in_a_row = 0

    def _step_stop(self, now: float) -> None:
        if self.process is None or now >= self.process.gone_at:
            if self.state is ReplicaState.DRAINING:
                self._enter(ReplicaState.STOPPING, now)
        elif self.state is ReplicaState.STOPPING and not self.signalled:
            self._signal(now)
        elif self.state is ReplicaState.DRAINING and now >= self._drained_at():
            self._enter(ReplicaState.STOPPING, now)
            self._signal(now)

    def _signal(self, now: float) -> None:
        process = self._running()
        self.signalled = True
        process.end(now + process.course.exit_seconds)

    def _again(self, now: float) -> None:
        self.failure, self.retry_at, self.ready_at = None, inf, None
        self._enter(ReplicaState.PENDING, now)

    def _fail(self, why: str, now: float, *, ever_ready: bool) -> None:
        served = self.ready_at is not None and now >= self.ready_at + SERVED_AFTER
        self.failures_in_a_row = 1 if served else self.failures_in_a_row + 1
        delay = min(FIRST_RETRY * 2.0 ** min(self.failures_in_a_row - 1, 16), LONGEST_RETRY)
        self.failure, self.retry_at = why, now + delay if ever_ready else inf
        self._enter(ReplicaState.FAILED, now)

    def _enter(self, state: ReplicaState, now: float) -> None:
        self.state, self.since = state, now

    def _running(self) -> EngineProcess:
        assert self.process is not None, f"{self.id} is {self.state} without a process"  # noqa: S101  # how states follow
        return self.process

    # When they are due.

    def _instants(self) -> tuple[float, ...]:
        if self.process is None:
            return (self.retry_at,)
        ends = (self.process.gone_at, self.process.free_at, self.retry_at)
        match self.state:
            case ReplicaState.STARTING:
                return (*ends, self.process.loaded_at, self._ready_deadline())
            case ReplicaState.READY:
                return (*ends, self._unhealthy_at(), self._served_at())
            case ReplicaState.UNHEALTHY:
                return (*ends, self.since + UNHEALTHY_UNTIL_KILLED)
            case ReplicaState.DRAINING:
                return (*ends, self._drained_at())
            case ReplicaState.PENDING | ReplicaState.FAILED | ReplicaState.STOPPING:
                return ends

    def _ready_deadline(self) -> float:
        course = self._running().course
        visible = inf if course.silent else course.load_seconds
        stuck_at = self._running().launched_at + (0.0 if visible == inf else visible)
        return stuck_at + self.entry.ready_timeout.total_seconds()

    def _unhealthy_at(self) -> float:
        mute_since = self._running().mute_since
        return inf if mute_since is None else mute_since + UNHEALTHY_AFTER

    def _served_at(self) -> float:
        return inf if self.ready_at is None or not self.failures_in_a_row else self.ready_at + SERVED_AFTER

    def _drained_at(self) -> float:
        assert self.stop is not None, f"{self.id} was not asked to stop"  # noqa: S101  # only a draining one is asked
        begins = self.since + self.stop.withdraw_delay.total_seconds()
        return begins + min(self._running().course.drain_seconds, self.stop.drain_timeout.total_seconds())


_GONE_IN = frozenset({ReplicaState.PENDING, ReplicaState.FAILED, ReplicaState.DRAINING, ReplicaState.STOPPING})
"""States in which an ended process was noticed as ended."""
