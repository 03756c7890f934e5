"""Packing: never a false refusal, never an over-commit, and the same words whatever the order of documents."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.placement.needs import Ask, Bin, Need
from reconciler.placement.packing import Outcome, Packing, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

H100 = "h100-80gb"
L40S = "l40s"


def a_need(
    gpus: int = 1, gpu_class: str | None = H100, *, nodes: int = 1, memory: int = 0, cores: int = 0, **select: str
) -> Need:
    return Need(gpu_class, gpus if gpu_class else 0, nodes, memory, cores, frozenset(select.items()))


def a_bin(name: str, gpus: int = 8, gpu_class: str = H100, *, memory: int | None = None, **labels: str) -> Bin:
    return Bin(name, {gpu_class: gpus} if gpus else {}, memory, None, {"node": name, **labels})


def fits(bins: Sequence[Bin], asks: Sequence[Ask]) -> bool:
    """Brute force, written without any of the packing: every replica on every node in every way."""
    return _rest([Brute(each) for each in bins], [ask for ask in asks for _ in range(ask.count)])


class Brute:
    """One node as it fills up."""

    def __init__(self, node: Bin) -> None:
        self.node = node
        self.taken: list[Need] = []

    def takes(self, need: Need) -> bool:
        if need.select - set(self.node.labels.items()):
            return False
        all_ = [*self.taken, need]
        gpus = Counter[str]()
        for each in all_:
            gpus[each.gpu_class or ""] += each.gpus
        if any(count > self.node.gpus.get(gpu_class, 0) for gpu_class, count in gpus.items() if gpu_class):
            return False
        memory, cores = sum(each.memory for each in all_), sum(each.cpu_cores for each in all_)
        limits = ((memory, self.node.memory), (cores, self.node.cpu_cores))
        return all(limit is None or amount <= limit for amount, limit in limits)


def _rest(nodes: Sequence[Brute], items: Sequence[Ask]) -> bool:
    if not items:
        return True
    for need in items[0].needs:
        for chosen in combinations([node for node in nodes if node.takes(need)], need.nodes):
            for node in chosen:
                node.taken.append(need)
            found = _rest(nodes, items[1:])
            for node in chosen:
                node.taken.pop()
            if found:
                return True
    return False


def holds(bins: Sequence[Bin], asks: Sequence[Ask], packing: Packing) -> None:
    """A packing places every replica, in one of its ways, and gives nothing twice."""
    by_name = {each.name: each for each in bins}
    assert Counter(each.model for each in packing.filling.packed) == Counter({ask.model: ask.count for ask in asks})
    gpus: Counter[tuple[str, str]] = Counter()
    memory: Counter[str] = Counter()
    cores: Counter[str] = Counter()
    for each in packing.filling.packed:
        need = each.need
        assert need in next(ask.needs for ask in asks if ask.model == each.model)
        assert len(set(each.nodes)) == len(each.nodes) == need.nodes
        for name in each.nodes:
            assert need.select <= set(by_name[name].labels.items())
            gpus[name, need.gpu_class or ""] += need.gpus
            memory[name] += need.memory
            cores[name] += need.cpu_cores
    assert all(count <= by_name[name].gpus.get(gpu_class, 0) for (name, gpu_class), count in gpus.items() if count)
    for name, node in by_name.items():
        assert node.memory is None or memory[name] <= node.memory
        assert node.cpu_cores is None or cores[name] <= node.cpu_cores


@st.composite
def bins(draw: st.DrawFn) -> list[Bin]:
    made = []
    for index in range(draw(st.integers(1, 3))):
        gpus = {H100: draw(st.integers(0, 4))}
        if draw(st.integers(0, 3)) == 0:
            gpus[L40S] = draw(st.integers(1, 2))
        memory = draw(st.sampled_from([None, None, 4, 6]))
        cores = draw(st.sampled_from([None, None, 5]))
        labels = {"rack": draw(st.sampled_from(["r1", "r2"])), "node": f"n{index}"}
        made.append(Bin(f"n{index}", gpus, memory, cores, labels))
    return made


@st.composite
def needs(draw: st.DrawFn) -> Need:
    gpu_class = draw(st.sampled_from([H100, H100, H100, L40S, None]))
    select = draw(st.sampled_from([{}, {}, {}, {"rack": "r1"}, {"node": "n0"}]))
    return Need(
        gpu_class,
        draw(st.integers(1, 3)) if gpu_class else 0,
        draw(st.sampled_from([1, 1, 1, 2])),
        draw(st.sampled_from([0, 0, 2, 3])),
        draw(st.sampled_from([0, 0, 2])),
        frozenset(select.items()),
    )


@st.composite
def asks(draw: st.DrawFn) -> list[Ask]:
    names = "abcd"[: draw(st.integers(1, 4))]
    ways = st.lists(needs(), min_size=1, max_size=2, unique=True).map(tuple)
    return [Ask(name, draw(st.integers(1, 2)), draw(ways)) for name in names]


@settings(max_examples=400, deadline=None)
@given(bins(), asks())
def test_it_agrees_with_brute_force(nodes: list[Bin], wanted: list[Ask]) -> None:
    alone = [ask for ask in wanted if fits(nodes, [Ask(ask.model, 1, ask.needs)])]
    packing = pack(nodes, wanted)
    assert packing.outcome is not Outcome.GAVE_UP, "a small fleet is always decided"
    assert packing.fits == fits(nodes, alone)
    if packing.fits:
        holds(nodes, alone, packing)
    else:
        assert packing.conflicts
        for conflict in packing.conflicts:
            compete = [ask for ask in alone if ask.model in conflict.models]
            assert not fits([each for each in nodes if each.name in conflict.nodes], compete), "these do compete"


@given(bins(), asks(), st.randoms())
def test_the_order_of_documents_changes_nothing(nodes: list[Bin], wanted: list[Ask], chance: object) -> None:
    del chance
    turned = pack(nodes[::-1], wanted)
    packing = pack(nodes, wanted)
    assert (packing.outcome, packing.filling.packed, packing.conflicts) == (
        turned.outcome,
        turned.filling.packed,
        turned.conflicts,
    )


TENS = (a_bin("n1", 10), a_bin("n2", 10))
TIGHT = (
    *(Ask("five", 1, (a_need(5),)), Ask("four", 2, (a_need(4),)), Ask("three", 1, (a_need(3),))),
    Ask("two", 2, (a_need(2),)),
)
"""Best fit puts 5 + 4 together and has nowhere for the last 2; 5 + 3 + 2 beside 4 + 4 + 2 works."""


def test_best_fit_is_said_to_have_found_it() -> None:
    packing = pack([a_bin("n1"), a_bin("n2")], [Ask("a", 2, (a_need(4),)), Ask("b", 1, (a_need(8),))])
    assert packing.outcome is Outcome.GREEDY
    assert packing.nodes_by_model == {"b": (("n1",),), "a": (("n2",), ("n2",))}


def test_what_best_fit_misses_is_found_by_trying() -> None:
    packing = pack(TENS, TIGHT)
    assert packing.outcome is Outcome.EXACT
    holds(TENS, TIGHT, packing)


def test_a_second_profile_is_a_way_out() -> None:
    wanted = [Ask("a", 1, (a_need(8), a_need(1, L40S))), Ask("b", 1, (a_need(8),))]
    packing = pack([a_bin("n1"), a_bin("l1", 1, L40S)], wanted)
    assert packing.fits
    assert packing.nodes_by_model == {"a": (("l1",),), "b": (("n1",),)}


@pytest.mark.parametrize(
    ("wanted", "of", "at_least", "needed", "available", "models"),
    [
        ([Ask("a", 3, (a_need(4),)), Ask("b", 1, (a_need(6),))], H100, 0, 18, 16, ("a", "b")),
        ([Ask("a", 3, (a_need(5),)), Ask("b", 1, (a_need(1),))], H100, 5, 3, 2, ("a",)),
        ([Ask("a", 2, (a_need(5, node="n1"),)), Ask("b", 1, (a_need(1),))], H100, 0, 10, 8, ("a",)),
        ([Ask("a", 1, (a_need(4, nodes=2),)), Ask("b", 3, (a_need(5),))], H100, 0, 23, 16, ("a", "b")),
    ],
)
def test_a_proof_by_counting_says_what_is_short(
    wanted: list[Ask], of: str, at_least: int, needed: int, available: int, models: tuple[str, ...]
) -> None:
    packing = pack([a_bin("n1"), a_bin("n2")], wanted)
    assert packing.outcome is Outcome.NONE
    (conflict,) = packing.conflicts
    short = conflict.shortage
    assert short is not None
    assert (short.of, short.at_least, short.needed, short.available) == (of, at_least, needed, available)
    assert conflict.models == models


def test_a_proof_by_trying_names_only_those_that_compete() -> None:
    """13 of 14 GPUs, and each of two nodes has 2 left beside a 5; the model on other cards has no part in it."""
    wanted = [Ask("five", 2, (a_need(5),)), Ask("three", 1, (a_need(3),)), Ask("other", 1, (a_need(1, L40S),))]
    packing = pack([a_bin("n1", 7), a_bin("n2", 7), a_bin("l1", 1, L40S)], wanted)
    assert packing.outcome is Outcome.NONE
    (conflict,) = packing.conflicts
    assert conflict.shortage is None
    assert conflict.models == ("five", "three")
    assert conflict.nodes == ("n1", "n2")
    assert packing.nodes_by_model == {"other": (("l1",),)}, "what has no part in it is placed all the same"


def test_a_search_that_is_too_long_gives_up_and_proves_nothing() -> None:
    packing = pack(TENS, TIGHT, budget=3)
    assert packing.outcome is Outcome.GAVE_UP
    assert not packing.fits
    assert packing.conflicts == ()
    assert packing.undecided == (("five", "four", "three", "two"),)


def test_fractions_of_a_gib_add_up() -> None:
    tenth = 100_000
    wanted = [Ask("a", 3, (a_need(0, None, memory=tenth),))]
    assert pack([a_bin("n1", 0, memory=3 * tenth)], wanted).fits
    assert not pack([a_bin("n1", 0, memory=3 * tenth - 1)], wanted).fits


def test_what_no_node_could_run_alone_is_another_rules_matter() -> None:
    assert pack([a_bin("n1")], [Ask("a", 1, (a_need(16),)), Ask("b", 1, (a_need(8),))]).fits


def test_replicas_over_many_nodes_are_decided_at_once() -> None:
    """Twenty nodes, no two alike: the ways to take eight of them are many, and most of them alike to the rest."""
    nodes = [a_bin(f"n{index:02}", 4 + index % 5, memory=1_000 + index) for index in range(20)]
    wanted = [Ask("wide", 2, (a_need(3, nodes=8),)), Ask("narrow", 6, (a_need(4, memory=900),))]
    packing = pack(nodes, wanted)
    assert packing.fits
    holds(nodes, wanted, packing)
    assert pack(nodes, [*wanted, Ask("more", 30, (a_need(4),))]).outcome is Outcome.NONE
    assert pack(nodes[:3], [Ask("wider", 1, (a_need(1, nodes=4),))]).filling.packed == []
