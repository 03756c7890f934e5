"""What rules lean on: right spellings, cycles, what nodes offer, places."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.desired import Path, Where
from reconciler.domain.fleet_spec import GpuGroup
from reconciler.domain.tables import gpu_classes
from reconciler.gate.capacity import Inventory
from reconciler.gate.cycles import cycles
from reconciler.gate.nearest import nearest
from reconciler.gate.phrases import LONGEST, listed, number, one_line
from reconciler.gate.places import place
from tests.gate.fleet import a_node

graphs = st.dictionaries(
    st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=5), max_size=8
).map(lambda edges: {name: [each for each in following if each in edges] for name, following in edges.items()})


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("H100-80GB", "h100-80gb"),
        ("h100", "h100-80gb"),
        ("h100_80gb", "h100-80gb"),
        ("h100-80bg", "h100-80gb"),
        ("h100-sxm", "h100-80gb"),
        ("RTX4090", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("NVIDIA L40S", "l40s"),
        ("nvidia-a100-80gb", "a100-80gb"),
        ("MI300", "mi300x"),
        ("l40x", "l40"),
        ("k80", None),
        ("", None),
        ("---", None),
    ],
)
def test_the_nearest_gpu_class(word: str, right: str | None) -> None:
    assert nearest(word, gpu_classes()) == right


def test_of_equally_near_names_the_first_is_taken() -> None:
    assert nearest("a100", ["a100-80gb", "a100-40gb"]) == "a100-80gb"
    assert nearest("a100", ["a100-40gb", "a100-80gb"]) == "a100-40gb"


def test_a_slip_is_found_among_very_many_names() -> None:
    names = [f"model-{number}" for number in range(5_000)] + ["qwen-32b"]

    assert nearest("qwne-32b", names) == "qwen-32b"


@given(graphs)
def test_every_cycle_is_one_and_none_is_told_twice(edges: dict[str, list[str]]) -> None:
    told = list(cycles(edges))

    for cycle in told:
        assert cycle[0] == min(cycle)
        assert len(set(cycle)) == len(cycle)
        assert all(after in edges[before] for before, after in pairwise([*cycle, cycle[0]]))
    assert len(set(told)) == len(told)


@given(graphs)
def test_cutting_each_told_cycle_once_leaves_none(edges: dict[str, list[str]]) -> None:
    cut = {name: set(following) for name, following in edges.items()}
    for cycle in cycles(edges):
        cut[cycle[-1]].discard(cycle[0])

    while ends := [name for name, following in cut.items() if not following & cut.keys()]:
        for name in ends:
            del cut[name]
    assert cut == {}


def test_a_long_chain_without_a_cycle_has_none() -> None:
    chain = {f"m{number:04}": [f"m{number + 1:04}"] if number < 4_999 else [] for number in range(5_000)}

    assert list(cycles(chain)) == []


def test_nodes_that_offer_the_same_are_counted_together() -> None:
    inventory = Inventory(tuple(a_node(f"gpu-{number:03}") for number in range(100)))

    assert [(kind.gpus, len(kind.nodes)) for kind in inventory.kinds("h100-80gb", {})] == [(8, 100)]
    assert inventory.kinds("l4", {}) == ()
    assert [len(kind.nodes) for kind in inventory.kinds(None, {})] == [100]


def test_drained_gpus_follow_the_order_of_the_groups() -> None:
    groups = tuple(GpuGroup.model_validate({"class": name, "count": 2}) for name in ("h100-80gb", "l4"))
    node = a_node("gpu-01", drain_gpus=(1, 2, 3))
    mixed = Inventory((type(node)(**{**{name: getattr(node, name) for name in node.__slots__}, "gpus": groups}),))

    assert [(kind.gpus, kind.in_service) for kind in mixed.kinds("h100-80gb", {})] == [(2, 1)]
    assert [(kind.gpus, kind.in_service) for kind in mixed.kinds("l4", {})] == [(2, 0)]


def test_a_node_is_selected_by_its_labels_or_its_name() -> None:
    inventory = Inventory((a_node("a", labels={"rack": "r1", "zone": "x"}), a_node("b", labels={"rack": "r1"})))

    assert [node.name for node in inventory.selected({"rack": "r1"})] == ["a", "b"]
    assert [node.name for node in inventory.selected({"rack": "r1", "zone": "x"})] == ["a"]
    assert [node.name for node in inventory.selected({"node": "b"})] == ["b"]
    assert inventory.selected({"node": "b", "zone": "x"}) == ()


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b", "c", "d"], "a, b, c, d"), (["a", "b", "c", "d", "e"], "a, b, c and 2 more")],
)
def test_lists_in_messages_are_short(names: list[str], text: str) -> None:
    assert listed(names) == text


@pytest.mark.parametrize(("value", "text"), [(64.0, "64"), (0.5, "0.5"), (1024, "1024"), (72.85, "72.8")])
def test_numbers_in_messages_are_short(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("64 heads · Größe", "64 heads · Größe"),
        ("a\nb\x1b[2J\u202ec", "a\ufffdb\ufffd[2J\ufffdc"),
        ("x" * LONGEST, "x" * LONGEST),
        ("a" * LONGEST + "b" * LONGEST, f"{'a' * (LONGEST // 2)} … {'b' * (LONGEST // 2)}"),
    ],
)
def test_what_others_wrote_is_quoted_on_one_printable_line(text: str, told: str) -> None:
    assert one_line(text) == told


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (("nodes", 0, "gpus", 0, "class"), 1),
        (("nodes", 0, "gpus", "class"), 2),
        (("gpus", 0, "class"), 3),
        (("gpus", "class"), 4),
    ],
)
def test_what_a_node_has_is_found_where_it_is_written(written: Path, line: int) -> None:
    lines = {written: line, ("nodes", 0): 90, (): 91}

    def locate(where: Where) -> tuple[int | None, int | None]:
        path = where.path
        while path not in lines:
            path = path[:-1]
        return lines[path], 1

    assert place(Where("nodes/a.yaml", ("nodes", 0, "gpus", 0, "class")), locate) == (line, 1)
