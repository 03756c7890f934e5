"""When `apply` ends although not all is done: a node that stays silent, a part that waits for one that failed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.controller.apply import SILENCE_BORNE, Ending, Fruitless, StopRequest, _ending
from reconciler.controller.attempt import Pass
from reconciler.domain.observed import ReplicaState, UnreachableNode
from reconciler.planning.planner import plan
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, heard, observation, shards_of


def ending(silent_for: timedelta | None) -> Ending | None:
    """Of an apply whose only node serves what was there before, and now keeps silent."""
    node, before = a_node("gpu-01"), a_model("m", context=4096)
    said = heard(node, a_replica(before, 0, "gpu-01", [0]))
    silent = UnreachableNode(
        name="gpu-01",
        reason="did not answer within 20 s",
        last=None if silent_for is None else said,
        silent_for=silent_for,
    )
    observed = observation(silent)
    decision = plan(a_desired([a_model("m", context=8192)], [node]), observed, (), NOON)
    return _ending(Pass(observed, decision, ()), StopRequest(), Fruitless())


@pytest.mark.parametrize(
    ("silent_for", "told"),
    [
        (timedelta(), None),
        (timedelta(seconds=18), None),
        (SILENCE_BORNE, Ending.WAITING),
        (timedelta(hours=1), Ending.WAITING),
        (None, Ending.WAITING),
    ],
)
def test_a_node_that_fell_silent_is_waited_for_a_minute(silent_for: timedelta | None, told: Ending | None) -> None:
    assert ending(silent_for) is told


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("failed", "starting", Ending.FAILED),
        ("failed", "pending", Ending.FAILED),
        ("starting", "failed", Ending.FAILED),
        ("failed", "draining", None),
        ("starting", "starting", None),
    ],
)
def test_a_part_that_starts_beside_one_that_failed_is_not_waited_for(
    first: str, second: str, told: Ending | None
) -> None:
    """Its leader, or its rank, is not launched again before somebody says so: it would wait for `ready_timeout`."""
    nodes = [a_node(name, gpus=2) for name in ("gpu-01", "gpu-02")]
    model = a_model("m", gpus=2, profile={"nodes": 2})
    shards = tuple(shard for node in nodes for shard in shards_of(node.name, (0, 1)))
    told_all = {"shards": shards, "addresses": ("10.0.0.1", "10.0.0.2"), "port": 18_000}
    parts = [
        heard(node, a_replica(model, 0, node.name, state=ReplicaState(state), entry=told_all))
        for node, state in zip(nodes, (first, second), strict=True)
    ]
    observed = observation(*parts)
    decision = plan(a_desired([model], nodes), observed, (), NOON)
    assert _ending(Pass(observed, decision, ()), StopRequest(), Fruitless()) is told
