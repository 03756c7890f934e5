"""The node: every replica it holds, what a reconciler may ask of it, and what an observation says of it all."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import anyio

from reconciler.agent import lifecycle
from reconciler.agent.adoption import adopted
from reconciler.agent.causes import why_ended
from reconciler.agent.drivers.base import Exit
from reconciler.agent.inventory import installed_engines
from reconciler.agent.journal import JournalUnwritable, file_stem
from reconciler.agent.launch_files import remove_launch_directory, sweep_launch_directories
from reconciler.agent.ledger import Ledger
from reconciler.agent.observing import REVISIONS_PER_START
from reconciler.agent.recovery import recover
from reconciler.agent.remembered import told_good, told_starts
from reconciler.agent.replica import Replica
from reconciler.domain.admission import Held, own_gpus, refuse
from reconciler.domain.assignment import ClaimGranted, Refusal, RunEntry, StopEntry
from reconciler.domain.observed import ForeignProcess, ReachableNode, ReplicaState
from reconciler.domain.port_blocks import PortRange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from reconciler.agent.journal import Journal
    from reconciler.agent.processes import Running
    from reconciler.agent.records import ReplicaRecord
    from reconciler.agent.tools import Tools
    from reconciler.domain.assignment import Assignment, ClaimRequest

_log = logging.getLogger(__name__)

GREETED_WITHIN = 3.0
"""Seconds: a serving engine answers one token in much less, and whoever waits for the agent waits twenty."""

_UNSURE = frozenset({ReplicaState.STARTING, ReplicaState.UNHEALTHY})
"""What an adopted engine may be recorded as although it serves."""


class Supervisor:
    """Makes one node match its assignment. Only `run` and `wait_for_change` wait.

    It begins by adopting: reading the journal, taking over the engines that run (`running`, by log stem), going on with
    what was begun. No command can come before that.
    """

    def __init__(self, tools: Tools, journal: Journal, running: Mapping[str, Sequence[Running]]) -> None:
        self._tools = tools
        self._journal = journal
        self._replicas: dict[str, Replica] = {}
        self._arrivals: list[Replica] = []
        self._arrived = anyio.Event()
        self._changes = 0
        self._change = anyio.Event()
        self._closing = False
        self._strays: tuple[Running, ...] = ()
        self._gpus_told = tools.gpus.seen().shown
        self._ledger = self._adopt(running)

    async def greet(self) -> None:
        """Ask what was taken over and did not count as ready, once and all at the same time, at most `GREETED_WITHIN`.

        For before the first observation is answered: an engine that serves must not look as if it served nobody.
        """
        with anyio.move_on_after(GREETED_WITHIN):
            async with anyio.create_task_group() as tasks:
                for replica in self._replicas.values():
                    if replica.watch.adopted and replica.record.state in _UNSURE:
                        tasks.start_soon(replica.guarded_step, name=f"first look at {replica.record.id}")

    def tend(self) -> None:
        """Write again what is not on disk, because it could not be written or somebody removed it; tell of GPUs."""
        gpus = self._tools.gpus.seen().shown
        if gpus != self._gpus_told:
            self._gpus_told = gpus
            self.changed()
        self._ledger.write_again()
        for replica_id, replica in self._replicas.items():
            replica.write_down(on_disk=self._journal.holds_replica(replica_id))

    async def run(self) -> None:
        """Supervise every replica for ever. Cancelling it leaves all engines running."""
        async with anyio.create_task_group() as tasks:
            while True:
                arrivals, self._arrivals = self._arrivals, []
                for replica in arrivals:
                    tasks.start_soon(replica.run, name=replica.record.id)
                await self._arrived.wait()
                self._arrived = anyio.Event()

    def close(self) -> None:
        """Answer everybody who waits for a change: the agent is about to end."""
        self._closing = True
        self.changed()

    # What a reconciler asks.

    def claim(self, request: ClaimRequest) -> ClaimGranted | Refusal:
        """Take or renew the claim on this node; JournalUnwritable when it cannot be remembered."""
        epoch = self._ledger.claim(request, self._tools.clock.read().seconds, self._tools.boot_id)
        return epoch if isinstance(epoch, Refusal) else ClaimGranted(epoch=epoch, ttl_seconds=request.ttl_seconds)

    def release(self, holder_id: str, epoch: int) -> None:
        """Give a claim up; nothing happens when it is not the newest any more."""
        self._ledger.release(holder_id, epoch)

    def assign(self, assignment: Assignment) -> int | Refusal:
        """Take the assignment and begin to carry it out: the revision. JournalUnwritable when it cannot be kept."""
        node = self._ledger.record
        refusal = refuse(
            assignment,
            node=self._tools.config.node,
            claims=self._ledger.claims,
            now=self._tools.clock.read().seconds,
            accepted=node.accepted,
            before=node.assignment,
            held={replica_id: _held(replica.record) for replica_id, replica in self._replicas.items()},
        )
        if refusal is not None:
            _log.warning("assignment refused: %s", refusal.message)
            return refusal
        if assignment != node.assignment:
            self._ledger.accept(assignment)
            self._carry_out(assignment)
        return self.revision

    @property
    def revision(self) -> int:
        """Moves with every transition that an observation shows."""
        return self._ledger.record.agent_starts * REVISIONS_PER_START + self._changes

    def observe(self) -> ReachableNode:
        """The node as of now."""
        node, config, moment = self._ledger.record, self._tools.config, self._tools.clock.read()
        gpus = self._tools.gpus.seen()
        return ReachableNode(
            name=config.node,
            boot_id=self._tools.boot_id,
            revision=self.revision,
            epoch=node.epoch,
            generation=node.accepted[1],
            gpus=gpus.gpus,
            gpu_problems=gpus.problems,
            engines=installed_engines(config, self._tools.support),
            replicas=tuple(replica.observe(moment) for _, replica in sorted(self._replicas.items())),
            foreign=self._foreign(),
            load_times=node.load_times,
            block_ports=None if config.block_ports == PortRange() else config.block_ports,
            failed_starts=told_starts(node, moment),
            failed_launches=node.failed_launches,
            last_good=told_good(node, self._replicas, moment),
        )

    def entry(self, replica_id: str) -> RunEntry | None:
        """What a replica was told to run; None when it is not held."""
        replica = self._replicas.get(replica_id)
        return None if replica is None else replica.record.entry

    async def wait_for_change(self, since: int) -> None:
        """Return when the revision is not `since`: one that is unknown here is answered at once."""
        while self.revision == since and not self._closing:
            await self._change.wait()

    # What its replicas ask: see `tools.Home`.

    def save(self, record: ReplicaRecord) -> None:
        """Put it into the journal."""
        self._journal.save_replica(record)

    def changed(self) -> None:
        """Move the revision."""
        self._changes += 1
        event, self._change = self._change, anyio.Event()
        event.set()

    def forget(self, replica_id: str) -> None:
        """It is gone; whoever waits for its GPUs looks again."""
        self._replicas.pop(replica_id, None)
        self._ledger.left(replica_id, self._tools.clock.read())
        try:
            self._journal.remove_replica(replica_id)
            remove_launch_directory(self._tools.config.directory, replica_id)
        except JournalUnwritable as error:  # the next agent finds the record, and that nothing of it is left
            _log.warning("%s is gone and that is not on disk: %s", replica_id, error.message)
        self._tools.logs.prune(self._replicas)
        self.changed()
        for replica in self._replicas.values():
            if replica.record.state is ReplicaState.PENDING:
                replica.wake()

    def gpu_holder(self, record: ReplicaRecord, engines: Iterable[Running]) -> str | None:
        """Who holds, or is about to hold, a GPU of this one: another replica, or an engine without a record."""
        gpus = own_gpus(record.entry, self._tools.config.node)
        for replica_id, replica in self._replicas.items():
            holds = replica.record.identity is not None or replica.record.state is ReplicaState.STARTING
            if replica_id != record.id and holds and gpus & own_gpus(replica.record.entry, self._tools.config.node):
                return replica_id
        shards, node = record.entry.placement.shards, self._tools.config.node
        numbers = {gpu.index for shard in shards if shard.node == node for gpu in shard.gpus}
        for each in self._without_record(engines):
            if not gpus.isdisjoint(each.gpus) or not numbers.isdisjoint(each.gpu_numbers):
                return f"pid {each.identity.pid}, an engine without a record (agent stop --engines ends it),"
        return None

    def ports_taken(self, replica_id: str) -> Collection[int]:
        """Ports that other replicas chose."""
        others = (replica.record for replica in self._replicas.values() if replica.record.id != replica_id)
        return frozenset(record.port for record in others if record.port is not None)

    def cores_taken(self, replica_id: str) -> Collection[int]:
        """CPU cores that were dealt out to other replicas."""
        others = (replica.record for replica in self._replicas.values() if replica.record.id != replica_id)
        return frozenset(core for record in others for core in record.cores)

    def was_ready(self, digest: str) -> bool:
        """Whether this launch digest reached ready on this node."""
        return self._ledger.was_ready(digest)

    def became_ready(self, record: ReplicaRecord) -> None:
        """Remember its launch digest and its load time."""
        self._ledger.became_ready(record)

    def launch_failed(self, record: ReplicaRecord, why: str) -> None:
        """Remember a launch that ended before it answered."""
        self._ledger.launch_failed(record, why, self._tools.clock.read())

    # How it does it.

    def _adopt(self, running: Mapping[str, Sequence[Running]]) -> Ledger:
        tools, moment = self._tools, self._tools.clock.read()
        contents = self._journal.open()
        recovered = recover(contents, running, moment, boot_id=tools.boot_id, host=tools.config.engine_host)
        self._strays = recovered.strays
        for stray in recovered.strays:
            _log.warning("pid %d is an engine without a record: %s", stray.identity.pid, stray.command)
        self._ledger = Ledger(recovered.node, self._journal, moment)
        for replica_id, record in recovered.replicas.items():
            self._adopt_replica(record, contents.replicas.get(replica_id))
        if recovered.node.assignment is not None:
            self._carry_out(recovered.node.assignment)
        sweep_launch_directories(tools.config.directory, {*map(file_stem, self._replicas), *running})
        _log.info("holding %d replicas; %d engines run", len(self._replicas), len(running))
        return self._ledger

    def _adopt_replica(self, record: ReplicaRecord, written: ReplicaRecord | None) -> None:
        tools = self._tools
        alive = record.identity is not None and tools.driver.alive(record.identity)
        why = partial(why_ended, record.entry, Exit(), config=tools.config, logs=tools.logs, support=tools.support)
        now = adopted(
            record,
            tools.clock.read(),
            boot_id=tools.boot_id,
            alive=alive,
            why=why,
            ever_ready=self.was_ready(record.entry.digest),
        )
        if now is None:
            self.forget(record.id)
            return
        if now.state is ReplicaState.FAILED and record.state is ReplicaState.STARTING:
            self.launch_failed(now, now.failure or "")
        replica = self._hold(now)
        replica.watch.adopted = alive
        replica.write_down(on_disk=now == written)
        _log.info("%s: taken over, %s", record.id, now.state)

    def _hold(self, record: ReplicaRecord) -> Replica:
        replica = Replica(record, self._tools, self)
        self._replicas[record.id] = replica
        self._arrivals.append(replica)
        self._arrived.set()
        return replica

    def _carry_out(self, assignment: Assignment) -> None:
        """Hold what it names; saying it twice changes nothing."""
        moment = self._tools.clock.read()
        for entry in assignment.entries:
            match entry:
                case RunEntry() if entry.id in self._replicas:
                    self._replicas[entry.id].reassign(entry)
                case RunEntry():
                    self._hold(lifecycle.begin(entry, moment, self._tools.boot_id))
                    self.changed()
                case StopEntry() if entry.id in self._replicas:
                    self._replicas[entry.id].stop(entry)
                case _:
                    pass  # it is gone already; or it asks for weights, and those of this form lie on the node

    def _foreign(self) -> tuple[ForeignProcess, ...]:
        alive = (each for each in self._without_record(self._strays) if self._tools.driver.alive(each.identity))
        return tuple(ForeignProcess(pid=each.identity.pid, command=each.command) for each in alive)

    def _without_record(self, engines: Iterable[Running]) -> Iterator[Running]:
        held = {replica.record.identity for replica in self._replicas.values()}
        return (each for each in engines if each.identity not in held)


def _held(record: ReplicaRecord) -> Held:
    return Held(entry=record.entry, has_process=record.identity is not None, stopping=record.stop is not None)
