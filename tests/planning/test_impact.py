"""How long, and whether a model is away: as far as load times are known, and never a guess."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.observed import LoadTime
from reconciler.planning.planner import plan
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, heard, lost, observation

if TYPE_CHECKING:
    from reconciler.domain.plan import Impact

TIMES = {"min_ready": "10s", "withdraw_delay": "5s"}


def impact(
    replicas: int, rollout: dict[str, Any], *, load: float | None = 60.0, gpus: int = 8, running: int = 8
) -> Impact:
    """Of a changed context for a model of so many replicas on one node of so many GPUs."""
    model = a_model(replicas=replicas, rollout=TIMES | rollout)
    before = model.model_copy(update={"context": 1024})
    node = a_node("n1", gpus=gpus)
    held = [a_replica(before, index, "n1", [index]) for index in range(min(replicas, running))]
    times = () if load is None else (LoadTime(model="m", seconds=load),)
    observed = observation(heard(node, *held, load_times=times))
    return plan(a_desired([model], [node]), observed, (), NOON).plan.impact


@pytest.mark.parametrize(
    ("found", "seconds", "away"),
    [
        (impact(1, {}), 75.0, 0.0),
        (impact(3, {}), 3 * 75.0, 0.0),
        (impact(3, {"max_surge": 2}), 2 * 75.0, 0.0),
        (impact(1, {"strategy": "in_place"}), 75.0, 60.0),
        (impact(3, {"strategy": "in_place"}), 3 * 75.0, 0.0),
        (impact(4, {"strategy": "in_place", "max_unavailable": 2}), 2 * 75.0, 0.0),
        (impact(2, {"strategy": "in_place", "max_unavailable": 2}), 75.0, 60.0),
        (impact(1, {}, load=None), None, 0.0),
        (impact(1, {"strategy": "in_place"}, load=None), None, None),
        (impact(3, {}, running=0), 60.0, 0.0),  # created side by side
        (impact(0, {}), 0.0, 0.0),
        (impact(1, {}, gpus=1), None, 0.0),  # blocked: no room beside
    ],
)
def test_an_estimate(found: Impact, seconds: float | None, away: float | None) -> None:
    assert (found.seconds, found.outage_seconds) == (seconds, away)


def test_counts_are_of_slots() -> None:
    model = a_model("m", replicas=2)
    node = a_node("n1")
    held = [a_replica(model, 0, "n1", [0]), a_replica(a_model("gone"), 0, "n1", [1])]
    found = plan(a_desired([model], [node]), observation(heard(node, *held)), (), NOON).plan.impact
    assert (found.created, found.replaced, found.deleted, found.unchanged) == (1, 0, 1, 1)


def test_a_load_time_of_the_same_node_is_better_than_one_of_another() -> None:
    model = a_model(replicas=2, rollout={"max_surge": 2} | TIMES)
    before = model.model_copy(update={"context": 1024})
    slow, fast = a_node("n1", gpus=2, drain=True), a_node("n2", gpus=2)
    seen = [a_replica(before, index, "n1", [index], load_seconds=200.0) for index in range(2)]
    silent = a_replica(a_model(replicas=1), 5, "n3", [0], load_seconds=900.0, state_for=timedelta(hours=1))
    fast_times = (LoadTime(model="m", seconds=20.0),)
    nodes = [slow, fast, a_node("n3", gpus=1)]
    observed = observation(heard(slow, *seen), heard(fast, load_times=fast_times), lost(nodes[2], silent))
    assert plan(a_desired([model], nodes), observed, (), NOON).plan.impact.seconds == 35.0
