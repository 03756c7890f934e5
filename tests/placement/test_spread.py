"""Replicas of one model go to different nodes, unless that costs some model its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.placement.demand import demands
from reconciler.placement.fit import Preference, find_seat
from reconciler.placement.room import build_room
from reconciler.placement.spread import Want, packed
from reconciler.placement.stock import stock
from tests.builders import FLEET, a_desired, a_model, a_node, heard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.desired import Node
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.placement.room import Room

FOUR = [a_node("n1", gpus=4), a_node("n2", gpus=4)]


def room_of(nodes: Sequence[Node]) -> Room:
    desired = a_desired([], nodes)
    return build_room(nodes, [stock(desired, heard(node)) for node in nodes], FLEET, lambda _: (0.0, 0))


def want(spec: ModelSpec) -> Want:
    return Want(spec.name, demands(a_desired([spec]), spec), spec.replicas)


def place(room: Room, wants: Sequence[Want], pack: frozenset[str]) -> dict[str, list[str]]:
    """The nodes that each model gets."""
    found: dict[str, list[str]] = {each.model: [] for each in wants}
    for each in wants:
        preference = Preference.PACK if each.model in pack else Preference.SPREAD
        for number in range(each.count):
            seat = find_seat(room, each.demands, each.model, preference)
            if seat is not None:
                seat.take(room, f"{each.model}/{number}@x", f"{each.model}/{number}", each.model)
                found[each.model] += seat.nodes
    return found


def placed(nodes: Sequence[Node], *specs: ModelSpec) -> dict[str, list[str]]:
    room, wants = room_of(nodes), [want(spec) for spec in specs]
    return place(room, wants, packed(room.copy(), wants))


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ([{"name": "a", "replicas": 2, "gpus": 1}], {"a": ["n1", "n2"]}),
        ([{"name": "a", "replicas": 3, "gpus": 1}], {"a": ["n1", "n2", "n1"]}),
        (
            [{"name": "a", "replicas": 2, "gpus": 1}, {"name": "big", "gpus": 4}],
            {"a": ["n1", "n1"], "big": ["n2"]},
        ),
        (  # the large one has no place either way, so nothing is gained by packing
            [{"name": "a", "replicas": 2, "gpus": 1}, {"name": "huge", "gpus": 8}],
            {"a": ["n1", "n2"], "huge": []},
        ),
        (  # both spread: each leaves two GPUs a node, and two is what the other wants
            [{"name": "a", "replicas": 2, "gpus": 2}, {"name": "b", "replicas": 2, "gpus": 2}],
            {"a": ["n1", "n2"], "b": ["n1", "n2"]},
        ),
    ],
)
def test_where_it_costs_nobody_a_place(models: list[dict[str, Any]], expected: dict[str, list[str]]) -> None:
    assert placed(FOUR, *(a_model(**each) for each in models)) == expected


def test_what_runs_counts() -> None:
    room = room_of(FOUR)
    spec = a_model("a", replicas=1, gpus=1)
    ways = demands(a_desired([spec]), spec)
    first = find_seat(room, ways, "a")
    assert first is not None
    first.take(room, "a/0@x", "a/0", "a")
    beside, instead = find_seat(room, ways, "a"), find_seat(room, ways, "a", leaving=first.nodes)
    assert beside is not None
    assert instead is not None
    assert (first.nodes, beside.nodes, instead.nodes) == (("n1",), ("n2",), ("n1",))


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=4),
)
def test_spreading_leaves_nobody_out_whom_packing_would_place(sizes: list[int], wanted: list[tuple[int, int]]) -> None:
    nodes = [a_node(f"n{index}", gpus=count) for index, count in enumerate(sizes)]
    specs = [a_model(f"m{index}", replicas=count, gpus=gpus) for index, (count, gpus) in enumerate(wanted)]
    wants = [want(spec) for spec in specs]
    chosen = place(room_of(nodes), wants, packed(room_of(nodes), wants))
    all_packed = place(room_of(nodes), wants, frozenset(spec.name for spec in specs))
    missing = [[each.count - len(found[each.model]) for each in wants] for found in (chosen, all_packed)]
    assert missing[0] <= missing[1], "the most important model decides"
