"""Why nothing fits, in numbers that a person can act on."""

from __future__ import annotations

from reconciler.placement.demand import demands
from reconciler.placement.refusal import NAMED_NODES, refuse
from reconciler.placement.room import build_room
from reconciler.placement.stock import stock
from tests.builders import FLEET, a_desired, a_model, a_node, a_replica, heard

OTHER = a_model("other", gpus=3)


def test_a_large_fleet_is_told_in_a_few_nodes_and_the_rest_in_a_number() -> None:
    full = [a_node(f"n{index}", gpus=4) for index in range(9)]
    drained = [a_node(f"x{index}", drain=True) for index in range(6)]
    nodes = [*full, *drained]
    seen = [heard(node, a_replica(OTHER, 0, node.name, [0, 1, 2])) for node in full] + [heard(each) for each in drained]
    spec = a_model(gpus=2)
    desired = a_desired([spec], nodes)
    room = build_room(nodes, [stock(desired, each) for each in seen], FLEET, lambda _: (0.0, 0))
    refusal = refuse(room, demands(desired, spec))
    assert refusal.shortage == "no node has 2 h100-80gb free (1 at most, n0)"
    assert refusal.message.count("has 1 of 4 free (other/0)") == NAMED_NODES
    assert "6 others have no more than these" in refusal.message
    assert "x0 is drained" in refusal.message
    assert "3 more are closed" in refusal.message


def test_each_profile_has_its_own_reason() -> None:
    profiles = [
        {"name": "wide", "engine": "vllm", "gpu_class": "h100-80gb", "gpus": 4},
        {"name": "cpu", "engine": "llamacpp", "memory_gib": 64.0, "cpu_cores": 8},
        {"name": "old", "engine": "vllm", "gpu_class": "v100-16gb", "gpus": 1},
    ]
    spec = a_model(profiles=profiles)
    node = a_node("n1", gpus=2, memory_gib=32.0, cpu_cores=4)
    desired = a_desired([spec], [node])
    room = build_room([node], [stock(desired, heard(node))], FLEET, lambda _: (0.0, 0))
    refusal = refuse(room, demands(desired, spec))
    assert "profile wide it needs 4 h100-80gb on one node; n1 has 2 of 2 free" in refusal.message
    assert "profile cpu it needs 64 GiB of host RAM and 8 cores" in refusal.message
    assert "n1 has 32 of 32 GiB host RAM left, 64 needed" in refusal.message
    assert "profile old it needs 1 v100-16gb on one node; no node of the inventory has v100-16gb" in refusal.message


def test_an_empty_inventory_is_said() -> None:
    spec = a_model(gpus=None)
    refusal = refuse(build_room([], [], FLEET, lambda _: (0.0, 0)), demands(a_desired([spec]), spec))
    assert refusal.shortage == "the inventory has no node"
    assert refusal.hint == "add a node"


def test_a_model_without_a_profile_is_said() -> None:
    assert refuse(build_room([], [], FLEET, lambda _: (0.0, 0)), ()).message == "it has no profile"


def test_an_engine_that_no_node_has_is_the_thing_to_install() -> None:
    spec = a_model(gpus=1)
    node = a_node("n1", gpus=2)
    desired = a_desired([spec], [node])
    room = build_room([node], [stock(desired, heard(node, engines=("llamacpp",)))], FLEET, lambda _: (0.0, 0))
    refusal = refuse(room, demands(desired, spec))
    assert refusal.hint == "install vllm where it is to run"
    assert refusal.shortage == "no node has 1 h100-80gb free that could take it (n1 lacks vllm)"


def test_a_replica_over_several_nodes_is_told_how_many_have_room() -> None:
    spec = a_model(gpus=4, profile={"nodes": 3})
    nodes = [a_node(f"n{index}", gpus=4) for index in range(3)]
    desired = a_desired([spec], nodes)
    seen = [heard(nodes[0], a_replica(OTHER, 0, "n0", [0, 1, 2])), heard(nodes[1]), heard(nodes[2])]
    room = build_room(nodes, [stock(desired, each) for each in seen], FLEET, lambda _: (0.0, 0))
    refusal = refuse(room, demands(desired, spec))
    assert refusal.shortage == "3 nodes with 4 h100-80gb free each are needed, and 2 have room (n1, n2)"
    assert refusal.message.startswith("it needs 4 h100-80gb on each of 3 nodes; n1 has 4 of 4 free")


def test_nodes_with_room_on_different_fabrics_are_no_room() -> None:
    spec = a_model(gpus=4, profile={"nodes": 2})
    nodes = [a_node(f"n{index}", gpus=4, labels={"fabric": fabric}) for index, fabric in enumerate("aab")]
    desired = a_desired([spec], nodes)
    seen = [heard(nodes[0], a_replica(OTHER, 0, "n0", [0, 1, 2])), heard(nodes[1]), heard(nodes[2])]
    room = build_room(nodes, [stock(desired, each) for each in seen], FLEET, lambda _: (0.0, 0))
    shortage = refuse(room, demands(desired, spec)).shortage
    assert shortage == "2 nodes have 4 h100-80gb free, and no 2 of them on one fabric"


def test_where_every_node_of_the_class_is_closed_none_is_said_to_be_full() -> None:
    spec = a_model(gpus=1)
    nodes = [a_node("n1", gpus=2, drain=True), a_node("n2", gpus=2)]
    desired = a_desired([spec], nodes)
    room = build_room(nodes, [stock(desired, heard(nodes[0]))], FLEET, lambda _: (0.0, 0))
    refusal = refuse(room, demands(desired, spec))
    assert refusal.shortage == "no node with h100-80gb takes new replicas (n1 is drained, n2 does not answer)"
    assert refusal.hint == "bring one of them back into service, or add a node"
