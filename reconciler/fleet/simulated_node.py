"""One node with its agent, simulated: what it answers, what it remembers, and what breaks on it. Nothing here waits.

Whether an assignment or a claim is taken is decided by the very rules of the real agent (`domain.admission`,
`domain.claims`). The node's clock is an argument; `advance` takes every step that is due at that instant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING

from reconciler.domain.admission import Held, own_gpus, refuse
from reconciler.domain.assignment import ClaimGranted, Refusal, RunEntry, StopEntry
from reconciler.domain.claims import Claims, decide_claim, released, restored
from reconciler.domain.observed import ReplicaState
from reconciler.fleet.simulated_engine import FULL_GPU, LOST_GPU, EngineProcess
from reconciler.fleet.simulated_memory import Memory
from reconciler.fleet.simulated_replica import SimulatedReplica
from reconciler.fleet.simulated_report import report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.assignment import Assignment, ClaimRequest, Holder
    from reconciler.domain.observed import ForeignProcess, ObservedGpu, ReachableNode
    from reconciler.fleet.simulated_seams import Surroundings

REVISIONS_PER_START = 10**6
"""As in the real agent: no revision of before its restart is ever taken for one of now."""


@dataclass(slots=True)
class SimulatedNode:
    """One node. What an agent keeps in its journal survives `kill_agent` and `crash`; processes survive the former."""

    name: str
    gpus: tuple[ObservedGpu, ...]
    engines: tuple[str, ...]
    around: Surroundings
    midnight: datetime = datetime(2026, 11, 30, tzinfo=UTC)
    """Its wall clock at second 0; moves when somebody sets the clock."""
    boot: int = 1
    agent_starts: int = 1
    is_up: bool = True
    has_agent: bool = True
    claims: Claims = field(default_factory=Claims)
    accepted: tuple[int, int] = (0, 0)
    assignment: Assignment | None = None
    replicas: dict[str, SimulatedReplica] = field(default_factory=dict)
    foreign: list[ForeignProcess] = field(default_factory=list)
    lost_gpus: set[str] = field(default_factory=set)
    """UUIDs for which the driver does not answer."""
    dead_holders: set[str] = field(default_factory=set)
    """Ids of reconcilers of this machine whose process is known to be gone."""
    memory: Memory = field(default_factory=Memory)
    """What it remembers of replicas, those that are gone included."""
    _changes: int = 0
    _pids: int = 1_000

    # What a reconciler asks.

    @property
    def answers(self) -> bool:
        """Whether an agent is there to be asked."""
        return self.is_up and self.has_agent

    @property
    def revision(self) -> int:
        """Moves with every transition that an observation shows."""
        return self.agent_starts * REVISIONS_PER_START + self._changes

    @property
    def boot_id(self) -> str:
        """Changes when the machine reboots."""
        return f"{self.name}-boot-{self.boot}"

    def observe(self, now: float) -> ReachableNode:
        """The node as of now."""
        return report(self, now)

    def claim(self, request: ClaimRequest, now: float) -> ClaimGranted | Refusal:
        """Take or renew the claim on this node."""
        outcome = decide_claim(self.claims, request, now, boot_id=self.boot_id, is_dead=self._is_dead)
        if isinstance(outcome, Refusal):
            return outcome
        self.claims = outcome
        return ClaimGranted(epoch=outcome.epoch, ttl_seconds=request.ttl_seconds)

    def release(self, holder_id: str, epoch: int) -> None:
        """Give a claim up; nothing happens when it is not the newest any more."""
        self.claims = released(self.claims, holder_id, epoch)

    def assign(self, assignment: Assignment, now: float) -> int | Refusal:
        """Take the assignment and begin to carry it out: the revision."""
        refusal = refuse(
            assignment,
            node=self.name,
            claims=self.claims,
            now=now,
            accepted=self.accepted,
            before=self.assignment,
            held={id_: _held(replica) for id_, replica in self.replicas.items()},
        )
        if refusal is not None:
            return refusal
        if assignment != self.assignment:
            self.assignment, self.accepted = assignment, (assignment.epoch, assignment.generation)
            self._carry_out(assignment, now)
            self.advance(now)
        return self.revision

    # How time passes.

    def advance(self, now: float) -> None:
        """Take every step that is due at this instant, until none is left."""
        while self.answers and any(self._step(each, now) for each in tuple(self.replicas.values())):
            pass

    def due_at(self, now: float) -> float:
        """The next instant at which something happens by itself."""
        return min((replica.due_at(now) for replica in self.replicas.values()), default=inf) if self.answers else inf

    # What breaks.

    def kill_agent(self) -> None:
        """The agent is gone; its engines go on."""
        self.has_agent = False

    def start_agent(self, now: float) -> None:
        """The agent is back and takes over what runs."""
        if self.is_up and not self.has_agent:
            self._adopt(now, rebooted=False)

    def crash(self, now: float) -> None:
        """The machine is gone, with every process on it."""
        self.is_up = self.has_agent = False
        self.foreign.clear()
        for replica in self.replicas.values():
            if replica.process is not None:
                replica.process.end(now, "its machine went down")

    def boot_again(self, now: float) -> None:
        """The machine is back, and so is its agent; GPUs answer again."""
        if not self.is_up:
            self.is_up, self.boot = True, self.boot + 1
            self.lost_gpus.clear()
            self._adopt(now, rebooted=True)

    def lose_gpu(self, uuid: str, now: float) -> None:
        """The driver stops answering for this GPU; the engine on it ends."""
        self.lost_gpus.add(uuid)
        for replica in self.replicas.values():
            if replica.process is not None and uuid in own_gpus(replica.entry, self.name):
                replica.process.end(now, LOST_GPU.failure or "")
        self._moved()

    def find_gpu(self, uuid: str) -> None:
        """The driver answers for it again."""
        self.lost_gpus.discard(uuid)
        self._moved()

    def install(self, engines: tuple[str, ...]) -> None:
        """Its engines are these from now on."""
        self.engines = engines
        self._moved()

    def held_gpus(self, now: float) -> Iterator[tuple[str, str]]:
        """Every GPU whose memory a process holds, with the replica or the foreign command that does."""
        for replica in self.replicas.values():
            if replica.process is not None and now < replica.process.free_at:
                yield from ((uuid, replica.id) for uuid in sorted(own_gpus(replica.entry, self.name)))
        for process in self.foreign:
            yield from ((uuid, process.command) for uuid in process.gpus)

    # What its replicas ask: see `simulated_seams.Home`.

    def holder(self, replica: SimulatedReplica, now: float) -> str | None:
        """Which other replica still holds a GPU of it."""
        gpus = own_gpus(replica.entry, self.name)
        held = (holder for uuid, holder in self.held_gpus(now) if uuid in gpus)
        return next((holder for holder in held if holder in self.replicas), None)

    def launch(self, replica: SimulatedReplica, now: float) -> EngineProcess:
        """Start its process."""
        gpus = own_gpus(replica.entry, self.name)
        self._pids += 1
        course = self.around.course(replica.entry, self.name)
        if gpus & self.lost_gpus:
            course = LOST_GPU
        elif gpus & {uuid for uuid, _ in self.held_gpus(now)}:
            course = FULL_GPU
        return EngineProcess(self._pids, course, now)

    def leads(self, replica: SimulatedReplica) -> bool:
        """Whether requests are answered on this node."""
        return replica.entry.placement.nodes[:1] == (self.name,)

    def parts(self, replica: SimulatedReplica) -> tuple[EngineProcess | None, ...]:
        """Its processes on other nodes."""
        return self.around.parts(replica.entry, self.name)

    def was_ready(self, replica: SimulatedReplica) -> bool:
        """Whether its launch digest reached ready on this node."""
        return self.memory.was_ready(replica.entry.digest)

    def became_ready(self, replica: SimulatedReplica) -> None:
        """Remember its launch digest and its load time."""
        self.memory.came_up(replica.entry, replica.load_seconds)

    def launch_failed(self, replica: SimulatedReplica, why: str, now: float) -> None:
        """Remember a launch that ended before it answered."""
        self.memory.came_to_nothing(replica.entry, why, now)

    # How it does it.

    def _carry_out(self, assignment: Assignment, now: float) -> None:
        for entry in assignment.entries:
            known = None if entry.kind == "prefetch" else self.replicas.get(entry.id)
            match entry:
                case RunEntry() if known is not None:
                    changed = known.reassign(entry, now)
                case RunEntry():
                    known = self.replicas[entry.id] = SimulatedReplica(entry, ReplicaState.PENDING, now)
                    changed = True
                case StopEntry() if known is not None:
                    changed = known.begin_stop(entry, now)
                case _:
                    continue  # it is gone already; or it asks for weights, and those lie on the node
            if changed and known is not None:
                self._moved(known, now)

    def _step(self, replica: SimulatedReplica, now: float) -> bool:
        changed = replica.step(self, now)
        if replica.is_gone:
            del self.replicas[replica.id]
            self.memory.left(replica.id, now)
            changed = True
        if changed:
            self._moved(replica, now)
        return changed

    def _moved(self, replica: SimulatedReplica | None = None, now: float = 0.0) -> None:
        self._changes += 1
        if replica is not None:
            self.around.changed(self.name, replica, now)

    def _adopt(self, now: float, *, rebooted: bool) -> None:
        self.has_agent, self._changes = True, 0
        self.agent_starts += 1
        self.claims = restored(self.claims.epoch, self.claims.claim, now)
        for id_, replica in tuple(self.replicas.items()):
            before = replica.state
            if not replica.adopt(self, now, rebooted=rebooted):
                del self.replicas[id_]
                self.memory.left(id_, now)
            if replica.state is not before or id_ not in self.replicas:
                self.around.changed(self.name, replica, now)
        self.advance(now)

    def _is_dead(self, holder: Holder) -> bool:
        return holder.id in self.dead_holders


def _held(replica: SimulatedReplica) -> Held:
    return Held(replica.entry, replica.process is not None, replica.stop is not None)
