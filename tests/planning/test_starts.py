"""How many replicas may be starting at once, as cluster.yaml says it and as it says nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.domain.fleet_spec import Limits
from reconciler.domain.observed import ReplicaState
from reconciler.planning.planner import plan
from reconciler.planning.starts import AT_LEAST, PER_NODE, Starts, allowed_starts
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, heard, observation


@pytest.mark.parametrize(
    ("written", "nodes", "allowed"),
    [
        (None, 1, AT_LEAST),
        (None, 80, 8),
        (None, 90, 9),
        (None, 1_000, 100),
        ("5%", 1_000, 50),
        ("0%", 1_000, AT_LEAST),
        (1, 1_000, 1),
        (3, 2, 3),
        (500, 2, 500),
    ],
)
def test_a_share_of_the_nodes_and_at_least_a_few_or_just_what_is_written(
    written: str | int | None, nodes: int, allowed: int
) -> None:
    limits = Limits() if written is None else Limits.model_validate({"concurrent_starts": written})
    assert allowed_starts(limits, nodes) == allowed


def test_what_waits_says_for_how_many_and_names_a_few() -> None:
    starts = Starts(limit=10)
    for number in range(10):
        starts.begin(f"m/{number}@00000000", f"m/{number}", [f"n{number}"])
    refused = starts.refuse("b/0", ["n99"])
    assert refused is not None
    message, on = refused
    assert message == "waits for 10 other starts (10 at once in the fleet)"
    assert on == tuple(f"m/{number}" for number in range(8))


def test_a_node_takes_four_whatever_the_fleet_may() -> None:
    starts = Starts(limit=100)
    for number in range(PER_NODE):
        starts.begin(f"m/{number}@00000000", f"m/{number}", ["n1"])
    assert starts.refuse("b/0", ["n2"]) is None
    refused = starts.refuse("b/0", ["n2", "n1"])
    assert refused is not None
    assert refused[0] == "waits for 4 other starts (4 at once on n1)"


def test_a_slot_that_was_cleared_has_its_turn_and_counts_once() -> None:
    starts = Starts(limit=1)
    starts.begin("a/0", "a/0", ["n1"])
    assert starts.refuse("a/0", ["n1"]) is None
    assert starts.refuse("b/0", ["n1"]) is not None
    starts.begin("a/0@00000000", "a/0", ["n1"])
    assert len(starts.begun) == 1


def test_a_plan_is_made_again_when_a_start_has_stalled() -> None:
    """No node says anything then: its ready_timeout is over, and something else may start."""
    node, limits = a_node("n1", gpus=2), {"concurrent_starts": 1}
    desired = a_desired([a_model("a"), a_model("b")], [node], limits=limits)
    starting = a_replica(a_model("a"), 0, "n1", [0], ReplicaState.STARTING, state_for=timedelta(minutes=29))
    decision = plan(desired, observation(heard(node, starting)), (), NOON)
    assert decision.look_again_in == timedelta(minutes=1)
