"""Where the nodes of one replica meet: what its entry says of addresses and ports, on every node the same."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

from reconciler.domain.assignment import RunEntry
from reconciler.domain.port_blocks import PORT_BLOCK, PortRange, free_block
from reconciler.planning.planner import plan
from tests.builders import a_desired, a_model, a_node, heard, observation
from tests.simulation import Simulation

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def entries(*, models: int = 1, gpus: int = 1, ranges: dict[str, PortRange] | None = None) -> list[RunEntry]:
    """What two nodes are told of models over both of them."""
    nodes = [
        a_node("gpu-01", gpus=models * gpus, address="https://gpu-01.example:7443"),
        a_node("gpu-02", gpus=models * gpus, address="https://[fd00::2]:7443"),
    ]
    wanted = [a_model(f"m{number:02}", gpus=gpus, profile={"nodes": 2}) for number in range(models)]
    seen = observation(*(heard(node, block_ports=(ranges or {}).get(node.name)) for node in nodes))
    decision = plan(a_desired(wanted, nodes), seen, (), NOW)
    return [each for orders in decision.orders.values() for each in orders.entries if isinstance(each, RunEntry)]


def test_every_node_is_told_the_addresses_of_all_and_one_block_of_ports() -> None:
    first, second = entries()
    assert first == second
    assert first.addresses == ("gpu-01.example", "fd00::2")
    assert first.port is not None
    assert PortRange().holds(first.port)


def test_replicas_on_the_same_nodes_get_blocks_of_their_own() -> None:
    nodes = [a_node("gpu-01", gpus=40), a_node("gpu-02", gpus=40)]
    desired = a_desired([a_model(f"m{number:02}", gpus=1, profile={"nodes": 2}) for number in range(40)], nodes)
    simulation = Simulation.of(observation(*(heard(node) for node in nodes)))
    while simulation.obey(plan(desired, simulation.observe(), (), NOW)):  # a few start at a time
        simulation.pass_time()
    told = {replica.id: replica.entry.port for _, replica in simulation.observe().replicas()}
    ports = sorted(port for port in told.values() if port is not None)
    assert len(ports) == 40
    assert all(after - before >= PORT_BLOCK for before, after in itertools.pairwise(ports))


def test_the_block_lies_in_the_range_of_every_node() -> None:
    ranges = {"gpu-01": PortRange(first=30_000, last=30_100), "gpu-02": PortRange(first=30_080, last=31_000)}
    (port,) = {each.port for each in entries(ranges=ranges)}
    assert port == 30_080


def test_a_replica_of_one_node_is_told_neither() -> None:
    node = a_node("n1", address="https://n1.example:7443")
    decision = plan(a_desired([a_model("m", gpus=1)], [node]), observation(heard(node)), (), NOW)
    (entry,) = decision.orders["n1"].entries
    assert isinstance(entry, RunEntry)
    assert (entry.addresses, entry.port) == ((), None)
    assert not {"addresses", "port"} & entry.model_dump(mode="json").keys(), "an older agent reads it too"


def test_where_every_block_is_taken_there_is_none() -> None:
    narrow = PortRange(first=30_000, last=30_031)
    assert free_block([narrow], (), 1) == 30_016
    assert free_block([narrow], (30_020,), 1) == 30_000
    assert free_block([narrow], (30_008,), 1) is None, "it overlaps both"
    assert free_block([narrow], (30_000, 30_016), 0) is None
    assert free_block([narrow, PortRange(first=40_000, last=40_100)], (), 0) is None, "no range is common"
