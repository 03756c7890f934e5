"""What `apply` says of a replica that is not seen any more: gone, or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.cli.progress import Progress
from reconciler.controller.attempt import Pass
from reconciler.domain.observed import Observation, UnreachableNode
from reconciler.planning.planner import plan
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, heard, observation

if TYPE_CHECKING:
    import pytest

NODE, MODEL = a_node("gpu-01"), a_model("m")
REPLICA = a_replica(MODEL, 0, "gpu-01", [0])


def told(capsys: pytest.CaptureFixture[str], *seen: Observation) -> str:
    """All that is said while a fleet is seen like this, after it was seen to serve."""
    progress = Progress(observation(heard(NODE, REPLICA)))
    for each in seen:
        progress.passed(Pass(each, plan(a_desired([MODEL], [NODE]), each, (), NOON), ()))
    return capsys.readouterr().out


def test_what_an_answering_node_holds_no_longer_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    assert f"✓ {REPLICA.id} stopped and gone" in told(capsys, observation(heard(NODE)))


def test_what_a_silent_node_held_is_unknown_however_long_it_keeps_silent(capsys: pytest.CaptureFixture[str]) -> None:
    silent = observation(UnreachableNode(name="gpu-01", reason="did not answer within 20 s", last=heard(NODE, REPLICA)))
    back = observation(heard(NODE, REPLICA))
    assert "gone" not in told(capsys, silent, silent, silent, back)
    assert "stopped and gone" in told(capsys, silent, silent, observation(heard(NODE)))
