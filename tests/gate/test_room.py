"""What the rules about room ask of packing, beyond what case files show: numbers in words, and how much they ask."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.domain.finding import Severity
from reconciler.domain.lock import Lock
from reconciler.gate.check import judge
from reconciler.gate.loading import loading
from reconciler.gate.phrases import about
from reconciler.gate.room import Room
from reconciler.gate.subject import context_of
from reconciler.gate.together import AGAIN
from tests.gate.fleet import COMMIT, SOURCE, a_fleet, a_model, a_node, found


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "about 5 s"), (42, "about 40 s"), (119, "about 120 s"), (125, "about 2 min"), (221, "about 4 min")],
)
def test_an_estimate_has_no_more_digits_than_it_deserves(seconds: float, words: str) -> None:
    assert about(seconds) == words


def test_hours_are_said_as_hours() -> None:
    assert about(5_400) == "about 1.5 h"


def test_the_time_to_load_is_of_the_weights_and_the_engine() -> None:
    source = {"source": SOURCE, "revision": COMMIT, "format": "safetensors", "weight_bytes": 2**34}
    fleet = a_fleet([a_model("m", {}, {"engine": "llamacpp"})])
    context = context_of(replace(fleet, locks={"m": Lock.model_validate({"sources": [source]})}), frozenset())
    told = [loading(context.knowledge, use) for use in context.uses]
    assert [each.basis if each else None for each in told] == [
        "weights 16 GiB at 1 GiB/s, then about 90 s until vllm answers",
        "weights 16 GiB at 1 GiB/s, then about 5 s until llamacpp answers",
    ]
    assert [round(each.seconds) if each else 0 for each in told] == [106, 21]


def test_ways_out_are_asked_for_a_bounded_number_of_times() -> None:
    """Forty groups, each on its own node with its own conflict: all are told, the first with a way out."""
    pools = [(f"n{number}", f"m{number}") for number in range(40)]
    nodes = [a_node(node, count=2) for node, _ in pools]
    models = [a_model(model, {"gpus": 2, "select": {"node": node}}, scaling={"min": 2}) for node, model in pools]
    told = [each for each in found(models, nodes) if each.rule == "inventory/overcommitted"]
    assert len(told) == 40
    assert all(each.severity is Severity.ERROR for each in told)
    checked = [each for each in told if "scaling.min: 1" in (each.hint or "")]
    assert 0 < len(checked) <= AGAIN
    assert {each.hint for each in told if each not in checked} == {"add a node, lower a scaling.min, or ask for less"}


def test_the_same_tree_in_another_order_is_judged_alike() -> None:
    nodes = [a_node(f"n{number}", count=4 + number) for number in range(4)]
    models = [a_model(f"m{number}", {"gpus": 1 + number % 3}, scaling={"min": 3}) for number in range(5)]
    told = found(models, nodes)
    assert any(each.rule in {"rollout/no-surge-room", "inventory/overcommitted"} for each in told)
    assert told == found(models[::-1], nodes[::-1])


def test_a_tree_that_moves_no_replica_is_packed_as_the_one_before() -> None:
    """Which is what makes a judgement inside `run` cheap; another minimum is packed anew."""
    nodes = [a_node("n0", count=2)]

    def room(context: int, least: int, earlier: Room | None) -> Room:
        fleet = a_fleet([a_model("m", {"gpus": 2}, context=context, scaling={"min": least})], nodes)
        kept = None if earlier is None else earlier.of_unchanged(())
        found = judge(fleet, frozenset(), lambda _: (None, None), room=kept).room
        assert found is not None
        return found

    first = room(4096, 1, None)
    again = room(8192, 1, first)
    other = room(8192, 2, again)

    assert again.together is first.together
    assert other.together is not again.together
    assert (first.together.lasting.fits, other.together.lasting.fits) == (True, False)
