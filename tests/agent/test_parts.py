"""A part of a replica over several nodes: as well as its leader, and launched again with the others.

No agent asks another one. Each goes by its own process and by whether the leader listens.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from reconciler.agent.config import AgentConfig
from reconciler.agent.launching import choose_port, deal_cores, own_rank
from reconciler.agent.serving import LIVENESS_EVERY, UNHEALTHY_UNTIL_KILLED
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import Placement, Shard, replica_id
from reconciler.domain.port_blocks import PORT_BLOCK, PortRange
from reconciler.engines.base import Answer
from reconciler.errors import AgentError
from tests.agent.bench import HEALTH, LOAD, LOADING, OK, SILENT, TOKEN, WRONG, Bench
from tests.agent.entries import NODE, run_entry, stop_entry

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.assignment import RunEntry

OTHER = "there"
PORT = 18_160
GONE = Answer(None, refused=True)
"""Nothing listens on the leader's port."""


def part(*, rank: int = 1, attempt: int = 0, port: int | None = PORT) -> RunEntry:
    """The entry of a replica over this node and another; this one's part is the `rank`."""
    usual = run_entry(attempt=attempt)
    nodes = (OTHER, NODE) if rank else (NODE, OTHER)
    shards = tuple(Shard(node=node) for node in nodes)
    declared = usual.declaration.model_copy(update={"nodes": 2})
    id_ = replica_id(usual.model, 0, declared.launch_digest(), None, None, shards)
    update = {
        "id": id_,
        "placement": Placement(id=id_, shards=shards),
        "declaration": declared,
        "digest": declared.launch_digest(),
        "addresses": ("127.0.0.2", "127.0.0.1") if rank else ("127.0.0.1", "127.0.0.2"),
        "port": port,
    }
    return usual.model_copy(update=update)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.anyio
async def test_it_listens_where_the_others_look_for_it_and_takes_its_block(bench: Bench) -> None:
    await bench.send(part(rank=0))
    assert bench.driver.newest.spec.argv[4:6] == ("--port", str(PORT))
    assert bench.one().address == f"http://127.0.0.1:{PORT}"


@pytest.mark.anyio
async def test_a_leader_that_answers_wrongly_is_for_its_own_agent_to_end(bench: Bench) -> None:
    bench.prober.answers[HEALTH.path] = WRONG
    await bench.send(part())
    await bench.through(60)
    assert bench.one().state is ReplicaState.STARTING
    bench.prober.answers |= {HEALTH.path: OK, TOKEN.path: OK}
    await bench.after(2)
    assert bench.one().state is ReplicaState.READY


@pytest.mark.anyio
async def test_a_rank_whose_leader_is_silent_is_unhealthy_and_not_killed(bench: Bench) -> None:
    seen = await bench.serve(part())
    bench.prober.answers[HEALTH.path] = SILENT
    await bench.through(UNHEALTHY_UNTIL_KILLED + 60)
    assert (bench.one().state, bench.one().pid) == (ReplicaState.UNHEALTHY, seen.pid)
    bench.prober.answers[HEALTH.path] = OK
    await bench.after(LIVENESS_EVERY)
    assert bench.one().state is ReplicaState.READY


@pytest.mark.anyio
async def test_it_is_not_launched_again_while_its_leader_goes_on_without_it(bench: Bench) -> None:
    await bench.serve(part())
    bench.driver.newest.end()
    await bench.after(1)
    assert bench.one().state is ReplicaState.FAILED
    await bench.through(600, every=60)
    assert bench.one().state is ReplicaState.FAILED, "a leader that answers counts on the rank that it had"
    await bench.send(part().model_copy(update={"attempt": 1}))
    assert bench.one().state is ReplicaState.READY


@pytest.mark.anyio
@pytest.mark.parametrize("leader", [GONE, SILENT, LOADING], ids=["gone", "silent", "loading"])
async def test_it_is_launched_again_by_itself_once_its_leader_does_not_serve(bench: Bench, leader: Answer) -> None:
    before = await bench.serve(part())
    bench.driver.newest.end()
    await bench.after(1)
    await bench.through(30)
    assert bench.one().state is ReplicaState.FAILED
    bench.prober.answers |= {HEALTH.path: leader, TOKEN.path: leader}
    await bench.through(10)
    assert bench.one().state is ReplicaState.STARTING
    bench.prober.answers |= {HEALTH.path: OK, TOKEN.path: OK}
    await bench.after(2)
    assert (bench.one().state, bench.one().pid == before.pid) == (ReplicaState.READY, False)


@pytest.mark.anyio
async def test_the_leader_is_launched_again_after_a_while_as_any_replica_is(bench: Bench) -> None:
    await bench.serve(part(rank=0))
    bench.driver.newest.end()
    await bench.after(1)
    assert bench.one().state is ReplicaState.FAILED
    await bench.after(10)
    assert bench.one().state is ReplicaState.READY


def tokens(bench: Bench) -> int:
    """How often one was asked for."""
    return sum(path == TOKEN.path for _, path, _ in bench.prober.asked)


@pytest.mark.anyio
async def test_an_idle_leader_is_asked_for_a_token_twice_a_minute(bench: Bench) -> None:
    await bench.serve(part(rank=0))
    before = tokens(bench)
    await bench.through(300)
    assert tokens(bench) - before == 10
    assert bench.one().state is ReplicaState.READY


@pytest.mark.anyio
async def test_one_that_is_well_and_makes_no_token_is_ended(bench: Bench) -> None:
    """A rank of it is gone, and nobody has sent a request that would show it."""
    before = await bench.serve(part(rank=0))
    await bench.through(10)
    bench.prober.answers[TOKEN.path] = SILENT
    await bench.through(45)
    assert (bench.one().state, bench.one().pid) == (ReplicaState.UNHEALTHY, before.pid)
    await bench.through(55)
    assert bench.one().failure == "stopped answering for 60 s and was killed"


@pytest.mark.anyio
async def test_a_busy_leader_is_not_asked_for_one_nor_ended_for_being_slow(bench: Bench) -> None:
    before = await bench.serve(part(rank=0))
    await bench.through(10)
    bench.prober.answers |= {LOAD.path: Answer(200, b"8 40"), TOKEN.path: SILENT}
    await bench.through(10)
    asked = tokens(bench)
    await bench.through(600)
    assert tokens(bench) == asked
    assert (bench.one().state, bench.one().pid) == (ReplicaState.READY, before.pid)


@pytest.mark.anyio
@pytest.mark.parametrize("entry", [part(), run_entry()], ids=["a rank", "a replica of one node"])
async def test_nothing_else_is_asked_for_a_token_while_it_serves(bench: Bench, entry: RunEntry) -> None:
    await bench.serve(entry)
    before = tokens(bench)
    await bench.through(300)
    assert tokens(bench) == before


@pytest.mark.anyio
async def test_a_part_that_never_served_is_not_launched_again(bench: Bench) -> None:
    bench.prober.answers |= {HEALTH.path: GONE, TOKEN.path: GONE}
    await bench.send(part())
    bench.driver.newest.end()
    await bench.through(600, every=60)
    assert bench.one().state is ReplicaState.FAILED


@pytest.mark.anyio
async def test_a_rank_whose_leader_is_gone_ends_and_waits_for_the_next_one(bench: Bench) -> None:
    before = await bench.serve(part())
    bench.prober.answers |= {HEALTH.path: GONE, TOKEN.path: GONE}
    await bench.through(15)
    assert (bench.one().state, bench.one().pid) == (ReplicaState.UNHEALTHY, before.pid)
    await bench.through(UNHEALTHY_UNTIL_KILLED)
    assert bench.one().state is ReplicaState.FAILED
    assert bench.one().failure == "its leader on there has not listened for 70 s; it is launched again with it"
    await bench.through(10)
    assert bench.one().state is ReplicaState.STARTING
    bench.prober.answers |= {HEALTH.path: OK, TOKEN.path: OK}
    await bench.after(2)
    assert (bench.one().state, bench.one().pid == before.pid) == (ReplicaState.READY, False)


@pytest.mark.anyio
async def test_one_that_waits_for_a_leader_of_before_ends_after_its_ready_timeout(bench: Bench) -> None:
    """It joined a process that led and died before anything was ready: the next leader waits for it."""
    await bench.serve(part())
    bench.prober.answers |= {HEALTH.path: GONE, TOKEN.path: GONE}
    bench.driver.newest.end()
    await bench.through(20)
    waiting = bench.one()
    assert waiting.state is ReplicaState.STARTING
    await bench.through(590)
    assert bench.one().pid == waiting.pid
    await bench.through(30)
    assert bench.one().pid != waiting.pid


@pytest.mark.anyio
async def test_one_that_runs_is_launched_again_with_the_others(bench: Bench) -> None:
    before = await bench.serve(part())
    await bench.send(part().model_copy(update={"attempt": 1}))
    after = bench.one()
    assert (after.state, after.entry.attempt) == (ReplicaState.READY, 1)
    assert after.pid != before.pid
    assert len(bench.records()) == 1


@pytest.mark.anyio
async def test_when_its_leader_has_stopped_nothing_is_in_flight_any_more(bench: Bench) -> None:
    entry = part()
    await bench.serve(entry)
    bench.prober.answers[LOAD.path] = SILENT
    await bench.send(stop_entry(entry, withdraw=0, drain=3_600))
    await bench.through(30)
    assert bench.node().replicas == ()


def first_of_a_block() -> socket.socket:
    """Listens on the first port of some block that nobody uses, so that it is the one that is told."""
    for first in range(18_000, 60_000, PORT_BLOCK):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", first))
    raise AssertionError("every block has its first port in use")


def config(directory: Path, **fields: object) -> AgentConfig:
    return AgentConfig.model_validate({"node": NODE, "listen": "unix:/nowhere", "state_dir": directory} | fields)


def test_which_rank_a_node_is_follows_from_the_placement() -> None:
    assert (own_rank(part(rank=0), NODE), own_rank(part(), NODE)) == (0, 1)
    with pytest.raises(AgentError, match="is placed on there, here, and this is elsewhere"):
        own_rank(part(), "elsewhere")


def test_a_block_outside_of_the_nodes_range_is_refused(tmp_path: Path) -> None:
    narrow = config(tmp_path, block_ports={"first": 30_000, "last": 30_100})
    with pytest.raises(AgentError, match="here gives blocks from 30000 to 30100"):
        choose_port(part(), narrow, (), None)
    with pytest.raises(AgentError, match="names neither their addresses nor its ports"):
        choose_port(part(port=None), narrow, (), None)


def test_the_leader_says_which_port_of_its_block_is_in_use(tmp_path: Path) -> None:
    with first_of_a_block() as busy:
        used = first = busy.getsockname()[1]
        wide = config(tmp_path, block_ports={"first": 1_024, "last": 65_535})
        with pytest.raises(AgentError, match=f"port {used} of its block {first} to {first + PORT_BLOCK - 1} is in use"):
            choose_port(part(rank=0, port=first), wide, (), None)
        assert choose_port(part(port=first), wide, (), None) == first, "a rank listens on none that is known"


@pytest.mark.parametrize(
    ("asked", "reserved", "cores", "taken", "dealt"),
    [
        (2, 4, (0, 1, 2, 3), (), (0, 1)),
        (2, 4, (0, 1, 2, 3), (0, 2), (1, 3)),
        (2, 4, (0, 1, 2, 3), (0, 1, 2), ()),
        (2, 8, (0, 1, 2, 3), (), ()),
        (2, None, (0, 1, 2, 3), (), ()),
        (None, 4, (0, 1, 2, 3), (), ()),
    ],
)
def test_cores_are_dealt_out_once(
    asked: int | None, reserved: int | None, cores: tuple[int, ...], taken: tuple[int, ...], dealt: tuple[int, ...]
) -> None:
    assert deal_cores(asked, reserved, cores, taken) == dealt


def test_a_range_without_room_for_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="room for a block of 16 ports between 18000 and 18014"):
        PortRange(first=18_000, last=18_014)
