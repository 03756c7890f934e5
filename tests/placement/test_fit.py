"""Best fit: the fullest node that still has room, spread where that is equal, the lowest neighbouring GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.observed import ReplicaState
from reconciler.placement.demand import demands
from reconciler.placement.fit import Seat, find_seat
from reconciler.placement.room import Room, build_room
from reconciler.placement.stock import stock
from tests.builders import FLEET, a_desired, a_model, a_node, a_replica, heard, uuid

if TYPE_CHECKING:
    from reconciler.domain.desired import Node
    from reconciler.domain.observed import ObservedReplica, ReachableNode

OTHER = a_model("other", gpus=1)


def room_of(nodes: list[Node], *seen: ReachableNode) -> Room:
    desired = a_desired([], nodes)
    reported = {each.name: each for each in seen}
    stocks = [stock(desired, reported.get(node.name) or heard(node)) for node in nodes]
    return build_room(nodes, stocks, FLEET, lambda entry: (entry.declaration.memory_gib or 0.0, 0))


def seat_of(room: Room, **model: Any) -> Seat | None:
    spec = a_model(**model)
    return find_seat(room, demands(a_desired([spec], []), spec), spec.name)


def holding(node: str, *indices: int) -> list[ObservedReplica]:
    return [a_replica(OTHER, index, node, [index]) for index in indices]


@pytest.mark.parametrize(
    ("held", "gpus", "chosen"),
    [
        ((), 2, [0, 1]),
        ((0,), 2, [1, 2]),
        ((1,), 2, [2, 3]),
        ((1, 4), 3, [5, 6, 7]),
        ((1, 3, 5), 2, [6, 7]),
        ((1, 3, 5, 7), 2, [0, 2]),
        ((0, 1, 2, 3), 4, [4, 5, 6, 7]),
    ],
)
def test_gpus_are_the_lowest_neighbours(held: tuple[int, ...], gpus: int, chosen: list[int]) -> None:
    node = a_node("n1")
    seat = seat_of(room_of([node], heard(node, *holding("n1", *held))), gpus=gpus)
    assert seat is not None
    assert [gpu.index for gpu in seat.shards[0].gpus] == chosen


def test_the_fullest_node_with_room_is_taken() -> None:
    nodes = [a_node("n1"), a_node("n2"), a_node("n3")]
    seen = [heard(nodes[1], *holding("n2", 0, 1, 2, 3, 4)), heard(nodes[2], *holding("n3", 0, 1, 2, 3, 4, 5, 6))]
    seat = seat_of(room_of(nodes, *seen), gpus=2)
    assert seat is not None
    assert seat.nodes == ("n2",)


@pytest.mark.parametrize(
    "state", [ReplicaState.PENDING, ReplicaState.STARTING, ReplicaState.FAILED, ReplicaState.STOPPING]
)
def test_a_replica_holds_its_gpus_in_every_state(state: ReplicaState) -> None:
    node = a_node("n1", gpus=1)
    assert seat_of(room_of([node], heard(node, a_replica(OTHER, 0, "n1", [0], state)))) is None


def test_an_engine_that_is_not_known_to_be_missing_is_no_obstacle() -> None:
    node = a_node("n1", gpus=1)
    assert seat_of(room_of([node], heard(node, agent=False, engines=()))) is not None
    assert seat_of(room_of([node], heard(node, agent=True, engines=()))) is None
    assert seat_of(room_of([node], heard(node, agent=False, engines=("llamacpp",)))) is None


def test_what_a_node_does_not_state_is_no_limit() -> None:
    node = a_node("n1", gpus=1)
    assert seat_of(room_of([node]), profile={"memory_gib": 4_000.0, "cpu_cores": 900}) is not None


@pytest.mark.parametrize(("memory_gib", "cores", "fits"), [(16.0, 8, True), (15.9, 8, False), (16.0, 7, False)])
def test_host_ram_and_cores_must_be_enough(memory_gib: float, cores: int, fits: bool) -> None:
    node = a_node("n1", gpus=1, memory_gib=memory_gib, cpu_cores=cores)
    seat = seat_of(room_of([node]), profile={"memory_gib": 16.0, "cpu_cores": 8})
    assert (seat is not None) == fits


def test_gpus_of_one_node_are_never_joined_with_those_of_another() -> None:
    assert seat_of(room_of([a_node("n1", gpus=2), a_node("n2", gpus=2)]), gpus=4) is None


def test_what_is_given_back_can_be_given_again() -> None:
    node = a_node("n1", gpus=2)
    room = room_of([node])
    seat = seat_of(room, gpus=2)
    assert seat is not None
    seat.take(room, "x", "m/0", "m")
    assert seat_of(room, gpus=1) is None
    copy = room.copy()
    assert copy.release("n1", "x") is not None
    assert seat_of(copy, gpus=2) == seat
    assert seat_of(room, gpus=1) is None, "a copy is independent"
    assert room.release("n1", "y") is None
    assert room.release("elsewhere", "x") is None


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=6),
    st.integers(1, 8),
)
def test_best_fit_is_what_looking_at_every_node_finds(shapes: list[tuple[int, int]], gpus: int) -> None:
    nodes = [a_node(f"n{index}", gpus=count) for index, (count, _) in enumerate(shapes)]
    held = [range(min(taken, count)) for count, taken in shapes]
    seen = [heard(node, *holding(node.name, *taken)) for node, taken in zip(nodes, held, strict=True)]
    free = {node.name: count - len(taken) for node, (count, _), taken in zip(nodes, shapes, held, strict=True)}
    seat = seat_of(room_of(nodes, *seen), name="m", gpus=gpus)
    fitting = sorted((count - gpus, name) for name, count in free.items() if count >= gpus)
    if not fitting:
        assert seat is None
        return
    assert seat is not None
    (shard,) = seat.shards
    assert shard.node == fitting[0][1]
    assert len({gpu.uuid for gpu in shard.gpus}) == gpus
    used = shapes[int(shard.node[1:])][1]
    assert all(gpu.index >= used and gpu.uuid == uuid(shard.node, gpu.index) for gpu in shard.gpus)
