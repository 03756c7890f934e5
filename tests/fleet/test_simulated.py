"""What only a simulated node can be asked: how parts of one replica meet and miss each other, and what it remembers."""

from __future__ import annotations

from datetime import timedelta
from math import inf

from reconciler.domain.assignment import RunEntry
from reconciler.domain.observed import FailedLaunch, FailedStarts, LoadTime, ReplicaState
from reconciler.domain.placement import Placement, Shard, replica_id
from reconciler.fleet.simulated import SimulatedNodes
from reconciler.fleet.simulated_engine import Course
from reconciler.fleet.simulated_memory import Memory
from reconciler.fleet.simulated_node import SimulatedNode
from reconciler.fleet.simulated_replica import SimulatedReplica
from tests.agent.entries import gpu, run_entry
from tests.builders import a_model, a_node, a_replica, an_entry, heard

HEAD, RANK = "n1", "n2"


class Pair:
    """One replica over two nodes; `loads` says how its launches go, by node."""

    def __init__(self, **loads: Course) -> None:
        self.nodes = SimulatedNodes(course_of=lambda _, node: loads.get(node, Course(load_seconds=10.0)))
        for name in (HEAD, RANK):
            self.nodes.add(SimulatedNode(name, (), ("vllm",), self.nodes))
        alone = run_entry(gpus=(0,), ready_timeout=60)
        shards = tuple(Shard(node=name, gpus=(gpu(0),)) for name in (HEAD, RANK))
        id_ = replica_id(alone.model, 0, alone.digest, None, None, shards)
        self.entry = alone.model_copy(update={"id": id_, "placement": Placement(id=id_, shards=shards)})
        self.send(self.entry)

    def send(self, entry: RunEntry, *names: str) -> None:
        """Both nodes, or these, are told to run it."""
        now = self.nodes.now
        for name in names or (HEAD, RANK):
            held = self.nodes.by_name[name].replicas
            if entry.id in held:
                held[entry.id].reassign(entry, now)
            else:
                held[entry.id] = SimulatedReplica(entry, ReplicaState.PENDING, now)
        self.nodes.advance(now)

    def at(self, seconds: float) -> tuple[ReplicaState, ReplicaState]:
        """Its states on both nodes at that instant."""
        self.nodes.advance(seconds)
        return self.part(HEAD).state, self.part(RANK).state

    def part(self, name: str) -> SimulatedReplica:
        return self.nodes.by_name[name].replicas[self.entry.id]

    def end(self, name: str) -> None:
        process = self.part(name).process
        assert process is not None
        process.end(self.nodes.now)
        self.nodes.advance(self.nodes.now)


def test_parts_are_ready_together_when_the_last_has_loaded() -> None:
    pair = Pair(n2=Course(load_seconds=30.0))
    assert pair.at(20) == (ReplicaState.STARTING, ReplicaState.STARTING)
    assert pair.at(30) == (ReplicaState.READY, ReplicaState.READY)


def test_only_the_head_gives_up_waiting() -> None:
    """As a real agent: what only computes is as well as its leader, whose own agent says so."""
    pair = Pair(n2=Course(load_seconds=inf, silent=True))
    assert pair.at(1_000) == (ReplicaState.FAILED, ReplicaState.STARTING)
    assert pair.part(HEAD).failure == "not ready, and no progress for 60 s (loading)"


def test_a_part_ends_with_the_other_and_both_start_again_after_a_while_and_meet() -> None:
    pair = Pair()
    pair.at(20)
    pair.end(RANK)
    assert pair.at(20) == (ReplicaState.FAILED, ReplicaState.FAILED)
    assert pair.part(HEAD).failure == "a part of it on another node has ended"
    assert pair.at(30) == (ReplicaState.STARTING, ReplicaState.STARTING)
    assert pair.at(40) == (ReplicaState.READY, ReplicaState.READY)


def test_a_part_that_never_served_is_not_launched_again() -> None:
    pair = Pair(n2=Course(load_seconds=5.0, failure="out of memory"))
    assert pair.at(50) == (ReplicaState.STARTING, ReplicaState.FAILED)
    assert pair.at(1_000) == (ReplicaState.FAILED, ReplicaState.FAILED)


def test_a_head_that_goes_on_without_its_rank_is_found_out_by_a_token() -> None:
    """Until then its rank stays failed: an engine takes none of its ranks back."""
    pair = Pair(n1=Course(load_seconds=10.0, notices_seconds=inf))
    pair.at(20)
    pair.end(RANK)
    assert pair.at(60) == (ReplicaState.READY, ReplicaState.FAILED)
    assert pair.at(68) == (ReplicaState.UNHEALTHY, ReplicaState.FAILED)
    assert pair.at(128) == (ReplicaState.FAILED, ReplicaState.STARTING)
    assert pair.at(150) == (ReplicaState.READY, ReplicaState.READY)


def test_a_higher_attempt_launches_a_head_that_runs_again() -> None:
    pair = Pair(n1=Course(load_seconds=10.0, notices_seconds=inf))
    pair.at(20)
    pair.end(RANK)
    pair.send(pair.entry.model_copy(update={"attempt": 1}), RANK)
    assert pair.at(40) == (ReplicaState.READY, ReplicaState.STARTING)
    before = pair.part(HEAD).process
    pair.send(pair.entry.model_copy(update={"attempt": 1}))
    assert pair.part(HEAD).process is not before
    assert pair.at(50) == (ReplicaState.READY, ReplicaState.READY)


def test_a_rank_whose_head_is_gone_ends_after_a_minute_and_waits_for_the_next_one() -> None:
    pair = Pair(n2=Course(load_seconds=10.0, notices_seconds=inf))
    pair.at(20)
    pair.nodes.by_name[HEAD].crash(20.0)
    assert pair.at(38)[1] is ReplicaState.UNHEALTHY
    assert pair.at(98)[1] is ReplicaState.FAILED
    assert pair.part(RANK).failure == "its leader on n1 has not listened for 78 s; it is launched again with it"
    assert pair.at(108)[1] is ReplicaState.STARTING
    pair.nodes.by_name[HEAD].boot_again(120.0)
    assert pair.at(130) == (ReplicaState.READY, ReplicaState.READY)


def test_a_mute_rank_makes_the_whole_unhealthy_and_the_head_ends_it() -> None:
    pair = Pair()
    pair.at(20)
    process = pair.part(RANK).process
    assert process is not None
    process.mute_since = 20.0
    assert pair.at(38) == (ReplicaState.UNHEALTHY, ReplicaState.UNHEALTHY)
    assert pair.at(98) == (ReplicaState.FAILED, ReplicaState.FAILED)
    assert pair.part(HEAD).failure == "stopped answering for 60 s and was killed"


def test_what_waits_for_a_gpu_says_who_holds_it() -> None:
    nodes = SimulatedNodes(course_of=lambda *_: Course(exit_seconds=1.0, frees_seconds=90.0))
    node = SimulatedNode(HEAD, (), ("vllm",), nodes)
    nodes.add(node)
    first, second = (run_entry(ordinal, gpus=(0,), node=HEAD) for ordinal in (0, 1))
    node.replicas[first.id] = SimulatedReplica(first, ReplicaState.PENDING, 0.0)
    nodes.advance(0.0)
    node.replicas[second.id] = SimulatedReplica(second, ReplicaState.PENDING, 0.0)
    nodes.advance(0.0)
    (_, waiting) = node.observe(0.0).replicas
    assert (waiting.state, waiting.stage) == (ReplicaState.PENDING, f"waiting for {first.id} to free its GPUs")


def test_a_node_that_begins_as_it_was_observed_tells_the_same() -> None:
    model = a_model()
    good = an_entry(a_model(context=512), 1, "n1", [1])
    failed = FailedLaunch(model="m", ordinal=1, digest="d", retry="r", failure="out of memory")
    seen = heard(
        a_node("n1"),
        a_replica(model, 0, "n1", [0]),
        last_good=(good,),
        failed_launches=(failed,),
        failed_starts=FailedStarts(in_a_row=2, last_for=timedelta(seconds=40)),
        load_times=(LoadTime(model="m", seconds=33.0),),
    )
    nodes = SimulatedNodes()
    node = SimulatedNode("n1", seen.gpus, seen.engines, nodes, memory=Memory.of(seen))
    told = node.observe(0.0)
    for field in ("last_good", "failed_launches", "failed_starts", "load_times"):
        assert getattr(told, field) == getattr(seen, field)
    assert node.memory.was_ready(seen.replicas[0].entry.digest)
