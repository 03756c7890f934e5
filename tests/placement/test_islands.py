"""GPUs of one replica come from one island, and from the island that is broken into already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.observed import GpuLinks, ObservedGpu
from reconciler.placement.demand import demands
from reconciler.placement.fit import find_seat
from reconciler.placement.islands import LEVELS, choose
from reconciler.placement.room import build_room
from reconciler.placement.stock import stock
from tests.builders import FLEET, a_desired, a_model, a_node, gpus_of, heard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.desired import Node
    from reconciler.domain.observed import ReachableNode

SXM = [GpuLinks(nvlink="all", switch=f"s{index // 2}", numa=index // 4) for index in range(8)]
"""Eight cards on one NVLink switch, two to a PCIe switch, four to a socket."""
PAIRS = [GpuLinks(nvlink=f"p{index // 2}", switch=f"s{index // 4}", numa=0) for index in range(8)]
"""Cards bridged in pairs."""
PCIE = [GpuLinks(switch=f"s{index // 2}", numa=index // 4) for index in range(8)]
"""No NVLink at all."""


def chosen(links: Sequence[GpuLinks], free: Sequence[int], count: int) -> tuple[int, list[int]]:
    by_uuid = {f"u{index}": each for index, each in enumerate(links)}
    level, gpus = choose([(index, f"u{index}") for index in free], by_uuid, count)
    return level, [index for index, _ in gpus]


@pytest.mark.parametrize(
    ("links", "free", "count", "expected"),
    [
        (SXM, range(8), 2, (0, [0, 1])),
        (SXM, range(8), 8, (0, list(range(8)))),
        (SXM, [1, 2, 3, 5], 2, (0, [2, 3])),  # of one PCIe switch, rather than the lowest two
        (SXM, [0, 1, 2, 3, 4, 6], 2, (0, [0, 1])),
        (PAIRS, range(8), 2, (0, [0, 1])),
        (PAIRS, [1, 2, 4, 5], 2, (0, [4, 5])),
        (PAIRS, range(8), 4, (1, [0, 1, 2, 3])),
        (PAIRS, [0, 2, 3, 4, 5, 6, 7], 3, (1, [0, 2, 3])),  # the switch that is broken into
        (PAIRS, range(8), 6, (2, [0, 1, 2, 3, 4, 5])),
        (PCIE, range(8), 2, (1, [0, 1])),
        (PCIE, [0, 2, 4, 6], 2, (2, [0, 2])),
        (PCIE, range(8), 5, (3, [0, 1, 2, 3, 4])),
        (PCIE, [0, 2, 3], 1, (0, [0])),  # so that the pair stays whole
        ([], [0, 2, 3], 2, (0, [2, 3])),
    ],
)
def test_the_best_set_is_chosen(
    links: Sequence[GpuLinks], free: Sequence[int], count: int, expected: tuple[int, list[int]]
) -> None:
    assert chosen(links, free, count) == expected


@given(
    st.lists(st.builds(GpuLinks, nvlink=st.sampled_from([None, "a", "b"]), numa=st.sampled_from([None, 0, 1]))),
    st.data(),
)
def test_it_takes_as_many_free_gpus_as_asked_and_says_truly_what_they_share(
    links: list[GpuLinks], data: st.DataObject
) -> None:
    free = sorted(data.draw(st.sets(st.integers(0, len(links) - 1)))) if links else []
    count = data.draw(st.integers(0, len(free)))
    level, gpus = chosen(links, free, count)
    assert len(set(gpus)) == count
    assert set(gpus) <= set(free)
    if count > 1 and level < len(LEVELS) and any(free):
        shared = {getattr(links[index], LEVELS[level]) for index in gpus}
        assert len(shared) == 1


def linked(node: Node, links: Sequence[GpuLinks]) -> ReachableNode:
    gpus = [gpu.model_copy(update={"links": each}) for gpu, each in zip(gpus_of(node), links, strict=True)]
    return heard(node, gpus=tuple(gpus))


def test_a_node_with_a_whole_island_is_taken_before_a_fuller_one_without() -> None:
    nodes = [a_node("n1", gpus=2), a_node("n2", gpus=4)]
    seen = [linked(nodes[0], [GpuLinks(nvlink="a"), GpuLinks(nvlink="b")]), linked(nodes[1], PAIRS[:4])]
    spec = a_model(gpus=2)
    desired = a_desired([spec], nodes)
    room = build_room(nodes, [stock(desired, each) for each in seen], FLEET, lambda _: (0.0, 0))
    seat = find_seat(room, demands(desired, spec), "m")
    assert seat is not None
    assert seat.nodes == ("n2",)


def test_an_agent_that_knows_nothing_of_links_says_what_it_always_said() -> None:
    gpu = ObservedGpu(uuid="u", index=0, gpu_class="l4")
    assert "links" not in gpu.model_dump(mode="json")
    assert ObservedGpu.model_validate_json(gpu.model_dump_json()) == gpu
    known = gpu.model_copy(update={"links": GpuLinks(nvlink="a")})
    assert ObservedGpu.model_validate_json(known.model_dump_json()) == known
