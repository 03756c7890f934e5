"""One replica as a simulated agent keeps it: the same steps as a real one takes, at the instants at which they are due.

`step` takes every step that is due and is silent about the rest; `due_at` says when it wants to be asked next.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, assert_never

from reconciler.domain.observed import ReplicaState
from reconciler.fleet import simulated_parts as parts

if TYPE_CHECKING:
    from reconciler.domain.assignment import RunEntry, StopEntry
    from reconciler.fleet.simulated_engine import EngineProcess
    from reconciler.fleet.simulated_seams import Home

# The real agent's pace: reconciler/agent/lifecycle.py and serving.py give the reasons.
FIRST_RETRY = 10.0
LONGEST_RETRY = 300.0
SERVED_AFTER = 60.0
UNHEALTHY_AFTER = 18.0
"""Three misses, five seconds apart, the last of which takes three to be one."""
UNHEALTHY_UNTIL_KILLED = 60.0

_SERVING = frozenset({ReplicaState.READY, ReplicaState.UNHEALTHY})
_AGAIN = frozenset({ReplicaState.FAILED})
_AGAIN_TOGETHER = _AGAIN | _SERVING | {ReplicaState.STARTING}
"""In which states a higher attempt launches it again: a replica of one node, and a part of one over several."""


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
    stage: str | None = None
    """How far its start is, or what it waits for."""
    watched_since: float = -inf
    """Since when this agent has watched it: what it did before nobody has read."""
    lonely_since: float | None = None
    """When it lost a part of it on another node."""
    leaderless_since: float | None = None
    """While it starts: since when nothing listens where its leader answers."""
    silent_since: float | None = None
    """While it serves: since when it looks silent, as last looked at."""

    @property
    def id(self) -> str:
        """Its replica id."""
        return self.entry.id

    @property
    def is_part(self) -> bool:
        """Whether other nodes run parts of it too."""
        return len(self.entry.placement.shards) > 1

    # What the node asks of it.

    def reassign(self, entry: RunEntry, now: float) -> bool:
        """Its entry was sent again; whether anything changed. A higher attempt launches what failed again.

        A part of a replica over several nodes is launched again also while it runs: its engine lost a rank for good.
        """
        higher = entry.attempt > self.entry.attempt
        kept = entry if higher else entry.model_copy(update={"attempt": self.entry.attempt})
        changed, self.entry = kept != self.entry, kept
        if higher and self.state in (_AGAIN_TOGETHER if self.is_part else _AGAIN):
            if self.process is not None:
                self.process.end(now)
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

    def adopt(self, home: Home, now: float, *, rebooted: bool) -> bool:
        """Its agent has come back; whether the replica is still there."""
        self.watched_since = now
        if self.process is not None and now >= self.process.free_at and (rebooted or self.stop is not None):
            self.process = None
        if self.process is not None and now < self.process.gone_at:
            return True
        if self.stop is not None:
            return self.process is not None
        if rebooted and (self.state is not ReplicaState.FAILED or home.was_ready(self)):
            self._again(now)
        elif self.state not in {ReplicaState.PENDING, ReplicaState.FAILED}:
            self._fail(home, "ended while no agent was watching", now)
        return True

    def step(self, home: Home, now: float) -> bool:
        """Take the steps that are due; whether anything changed. `is_gone` tells afterwards whether it is there."""
        before = self._shown
        if self.process is not None and now >= self.process.free_at and self.state in _GONE_IN:
            self.process = None
        if self.stop is not None:
            self._step_stop(now)
        else:
            self._step(home, now)
        return before != self._shown

    @property
    def _shown(self) -> tuple[object, ...]:
        adapters = None if self.process is None else self.process.adapters
        return self.state, self.process, self.failures_in_a_row, self.stage, adapters

    @property
    def is_gone(self) -> bool:
        """Whether it has been stopped and holds nothing any more."""
        return self.stop is not None and self.process is None

    def due_at(self, now: float) -> float:
        """The next instant at which `step` would change something by itself."""
        return min((at for at in self._instants() if at > now), default=inf)

    # Its steps.

    def _step(self, home: Home, now: float) -> None:
        match self.state:
            case ReplicaState.PENDING:
                if self.process is None:
                    self._launch(home, now)
            case ReplicaState.STARTING:
                self._start(home, now)
            case ReplicaState.READY | ReplicaState.UNHEALTHY:
                self._serve(home, now)
            case ReplicaState.FAILED:
                if self.process is None and now >= self.retry_at and not parts.leader_serves(home, self, now):
                    self._again(now)
            case ReplicaState.DRAINING | ReplicaState.STOPPING:
                raise AssertionError(f"{self.id} is {self.state} and was not asked to stop")
            case unknown:
                assert_never(unknown)

    def _launch(self, home: Home, now: float) -> None:
        holder = home.holder(self, now)
        if holder is not None:
            self.stage = f"waiting for {holder} to free its GPUs"
            return
        self.process, self.stage = home.launch(self, now), "loading"
        self.lonely_since = self.leaderless_since = None
        self.watched_since = now
        self._enter(ReplicaState.STARTING, now)

    def _start(self, home: Home, now: float) -> None:
        process = self._running()
        self.leaderless_since = parts.leaderless_since(home, self, now)
        if now >= process.gone_at:
            self._fail(home, process.why, now)
        elif process.answers(now) and (partners := parts.met(home, self, now)) is not None:
            process.partners = partners
            process.adapters = self.entry.declaration.adapters or None
            self.ready_at, self.load_seconds = now, round(now - process.launched_at, 3)
            self._enter(ReplicaState.READY, now)
            home.became_ready(self)
        elif now >= self._ready_deadline() and home.leads(self):
            allowed = self.entry.ready_timeout.total_seconds()
            process.end(now)
            self._fail(home, f"not ready, and no progress for {allowed:.0f} s (loading)", now)
        elif now >= self._leader_deadline() and home.was_ready(self):
            self._end_without_leader(home, self.leaderless_since, now)

    def _end_without_leader(self, home: Home, since: float | None, now: float) -> None:
        self._running().end(now)
        self._fail(home, parts.leader_gone(self, now - (now if since is None else since)), now)

    def _serve(self, home: Home, now: float) -> None:
        process = self._running()
        if self.lonely_since is None and process.lost_a_partner(now):
            self.lonely_since = now
        declared = self.entry.declaration
        if declared.loads_adapters and declared.adapters != (process.adapters or ()):
            process.adapters = declared.adapters
        if now >= self._ends_alone_at():
            process.end(now, "a part of it on another node has ended")
        self.silent_since = parts.silent_since(home, self)
        if now >= process.gone_at:
            self._fail(home, process.why, now)
        else:
            self._judge(home, process, now)

    def _judge(self, home: Home, process: EngineProcess, now: float) -> None:
        """In routing or out of it, or ended after a silent minute."""
        if self.state is ReplicaState.UNHEALTHY and (self.silent_since is None or now < self.silent_since):
            self._enter(ReplicaState.READY, now)
        elif self.state is ReplicaState.UNHEALTHY and now >= self.since + UNHEALTHY_UNTIL_KILLED:
            if home.leads(self):
                process.end(now)
                self._fail(home, f"stopped answering for {UNHEALTHY_UNTIL_KILLED:.0f} s and was killed", now)
            elif process.partners and now >= process.partners[0].gone_at + UNHEALTHY_UNTIL_KILLED:
                self._end_without_leader(home, process.partners[0].gone_at, now)
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

    def _fail(self, home: Home, why: str, now: float) -> None:
        if self.state not in _SERVING:
            home.launch_failed(self, why, now)
        served = self.ready_at is not None and now >= self.ready_at + SERVED_AFTER
        self.failures_in_a_row = 1 if served else self.failures_in_a_row + 1
        delay = min(FIRST_RETRY * 2.0 ** min(self.failures_in_a_row - 1, 16), LONGEST_RETRY)
        self.failure, self.retry_at = why, now + delay if home.was_ready(self) else inf
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
                return (*ends, self.process.loaded_at, self._ready_deadline(), self._leader_deadline())
            case ReplicaState.READY:
                return (*ends, self._unhealthy_at(), self._served_at(), self._ends_alone_at())
            case ReplicaState.UNHEALTHY:
                return (*ends, self.since + UNHEALTHY_UNTIL_KILLED, self._ends_alone_at())
            case ReplicaState.DRAINING:
                return (*ends, self._drained_at())
            case ReplicaState.PENDING | ReplicaState.FAILED | ReplicaState.STOPPING:
                return ends

    def _ready_deadline(self) -> float:
        course = self._running().course
        visible = inf if course.silent else course.load_seconds
        stuck_at = self._running().launched_at + (0.0 if visible == inf else visible)
        return stuck_at + self.entry.ready_timeout.total_seconds()

    def _leader_deadline(self) -> float:
        if self.leaderless_since is None:
            return inf
        return max(self.leaderless_since + self.entry.ready_timeout.total_seconds(), self._ready_deadline())

    def _unhealthy_at(self) -> float:
        return inf if self.silent_since is None else self.silent_since + UNHEALTHY_AFTER

    def _ends_alone_at(self) -> float:
        return inf if self.lonely_since is None else self.lonely_since + self._running().course.notices_seconds

    def _served_at(self) -> float:
        return inf if self.ready_at is None or not self.failures_in_a_row else self.ready_at + SERVED_AFTER

    def _drained_at(self) -> float:
        assert self.stop is not None, f"{self.id} was not asked to stop"  # noqa: S101  # only a draining one is asked
        process, begins = self._running(), self.since + self.stop.withdraw_delay.total_seconds()
        ends = max(begins + process.course.drain_seconds, process.busy_until)
        return min(ends, begins + self.stop.drain_timeout.total_seconds())


_GONE_IN = frozenset({ReplicaState.PENDING, ReplicaState.FAILED, ReplicaState.DRAINING, ReplicaState.STOPPING})
"""States in which an ended process was noticed as ended."""
