"""What makes an action of a saved plan stale, what does not, and that its words name the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ForeignProcess, ReplicaState
from reconciler.planning.planner import plan
from reconciler.planning.premises import premises, stale
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, an_intent, gpus_of, heard, lost, observation
from tests.strategies import Fleet, fleets

if TYPE_CHECKING:
    from reconciler.domain.observed import NodeObservation

BEFORE = a_model(gpus=2, context=1024)
OTHER = a_model("other")
DESIRED = a_desired([a_model(gpus=2), OTHER], [a_node("n1", gpus=2), a_node("n2", gpus=2), a_node("n3", gpus=2)])
N1, N2, N3 = DESIRED.nodes
RUNNING = a_replica(BEFORE, 0, "n1", [0, 1])
BESIDE = a_replica(OTHER, 0, "n3", [0])
PLANNED = observation(heard(N1, RUNNING), heard(N2), heard(N3, BESIDE))
PLAN = plan(DESIRED, PLANNED, (), NOON).plan


def told(*nodes: NodeObservation, **_: Any) -> list[str]:
    """Why each action that no longer holds does not."""
    now = observation(*nodes)
    found = stale(PLAN, premises(PLAN, PLANNED), plan(DESIRED, now, (), NOON).plan, now)
    return [f"{each.change.replica}: {each.why}" for each in found]


def test_a_restart_that_was_asked_for_meanwhile_is_told_as_another_launch() -> None:
    asked = plan(DESIRED, PLANNED, (an_intent(IntentKind.RESTART, "m"),), NOON).plan
    (found,) = stale(PLAN, premises(PLAN, PLANNED), asked, PLANNED)
    assert found.why == "another launch is wanted now, as when a restart was asked for meanwhile"


def test_the_plan_is_one_surge_from_n1_to_n2() -> None:
    (change,) = PLAN.acts
    assert (change.replica, change.before and change.before.nodes, change.after and change.after.nodes) == (
        "m/0",
        ("n1",),
        ("n2",),
    )
    (premise,) = premises(PLAN, PLANNED)
    assert (premise.nodes, premise.replicas) == (("n1", "n2"), (RUNNING.id,))
    assert [(gpu.node, gpu.index, gpu.holder) for gpu in premise.gpus] == [("n2", 0, None), ("n2", 1, None)]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (
            (heard(N1, RUNNING), lost(N2), heard(N3, BESIDE)),
            "m/0: n2 does not answer (connection refused)",
        ),
        ((lost(N1, RUNNING), heard(N2), heard(N3, BESIDE)), "m/0: n1 does not answer (connection refused)"),
        ((heard(N1), heard(N2), heard(N3, BESIDE)), f"m/0: {RUNNING.id} is no longer there"),
        (
            (
                heard(N1, RUNNING),
                heard(N2, foreign=(ForeignProcess(pid=7, command="train", gpus=("GPU-n2-1",)),)),
                heard(N3, BESIDE),
            ),
            "m/0: GPU 1 of n2 is held by process 7, and was free",
        ),
        (
            (heard(N1, RUNNING), heard(N2, gpus=gpus_of(N2, answers=False)), heard(N3, BESIDE)),
            "m/0: GPU 0 of n2 does not answer its driver; GPU 1 of n2 does not answer its driver",
        ),
        (
            (heard(N1, RUNNING), heard(N2, gpus=gpus_of(N2)[:1]), heard(N3, BESIDE)),
            "m/0: GPU 1 of n2 is no longer reported",
        ),
        (
            (heard(N1, a_replica(BEFORE, 0, "n1", [0, 1], ReplicaState.FAILED)), heard(N2), heard(N3, BESIDE)),
            "m/0: it would now be: replace in place, n1 [0,1] → n2 [0,1]",
        ),
        (
            (heard(N1, a_replica(DESIRED.models[0], 0, "n1", [0, 1])), heard(N2), heard(N3, BESIDE)),
            f"m/0: {RUNNING.id} is no longer there",
        ),
    ],
    ids=["goes-to", "comes-from", "gone", "taken", "silent", "unplugged", "failed", "done"],
)
def test_what_an_action_relies_on_has_changed(nodes: tuple[NodeObservation, ...], why: str) -> None:
    assert told(*nodes) == [why]


@pytest.mark.parametrize(
    "nodes",
    [
        (heard(N1, RUNNING), heard(N2), lost(N3, BESIDE)),
        (heard(N1, RUNNING), heard(N2), heard(N3, a_replica(OTHER, 0, "n3", [0], ReplicaState.FAILED))),
        (heard(N1, RUNNING), heard(N2), heard(N3, BESIDE, gpus=gpus_of(N3, answers=False))),
        (heard(N1, RUNNING), heard(N2, boot_id="another"), heard(N3, BESIDE)),
    ],
    ids=["another-node", "another-model", "other-gpus", "reboot"],
)
def test_what_changes_elsewhere_makes_nothing_stale(nodes: tuple[NodeObservation, ...]) -> None:
    assert told(*nodes) == []


def test_a_suspension_since_then_is_named() -> None:
    suspended = a_desired([a_model(gpus=2, suspend=True), OTHER], DESIRED.nodes)
    anew = plan(suspended, PLANNED, (), NOON).plan
    (found,) = stale(PLAN, premises(PLAN, PLANNED), anew, PLANNED)
    assert found.why == "the model is suspended"


def test_what_an_action_waits_on_may_have_come_about() -> None:
    full = observation(heard(N1, RUNNING), heard(N2, a_replica(a_model("gone"), 0, "n2", [0])), heard(N3, BESIDE))
    waiting = plan(DESIRED, full, (), NOON).plan
    assert any(change.schedule.kind == "waiting" for change in waiting.acts)
    anew = plan(DESIRED, PLANNED, (), NOON).plan
    found = stale(waiting, premises(waiting, full), anew, PLANNED)
    assert [each.change.replica for each in found] == ["gone/0"], "m/0 goes where it was promised"


@given(fleets())
def test_nothing_is_stale_while_nothing_changes(fleet: Fleet) -> None:
    made = plan(fleet.desired, fleet.observed, fleet.intents, NOON).plan
    assert stale(made, premises(made, fleet.observed), made, fleet.observed) == ()
