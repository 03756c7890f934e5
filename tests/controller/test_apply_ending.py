"""When `apply` gives up on a node that does not answer: not at its first silence."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.controller.apply import SILENCE_BORNE, Ending, Fruitless, StopRequest, _ending
from reconciler.controller.attempt import Pass
from reconciler.domain.observed import UnreachableNode
from reconciler.planning.planner import plan
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, heard, observation


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
