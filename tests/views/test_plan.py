"""The plan as JSON, to the letter of the contract, and the corners of its text; whole texts are in planning/cases."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import LoadTime
from reconciler.domain.placement import Placement
from reconciler.planning.outlook import NoFigures, foresee
from reconciler.planning.planner import plan
from reconciler.views.placement import clock_text, indices_text, place_text, seconds_text
from reconciler.views.plan import plan_json, plan_text
from reconciler.views.plan_markdown import plan_markdown
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, an_intent, heard, lost, observation, shards_of

if TYPE_CHECKING:
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Decision, Plan

NODE = a_node("n1", gpus=4)
BEFORE = a_model(context=1024)


def decided(model: ModelSpec, observed: Observation, **told: Any) -> Decision:
    return plan(a_desired([model], [NODE]), observed, (), NOON, **({"commit": "9c2f4e1", "tree": "t1"} | told))


def surge() -> tuple[Decision, Observation]:
    observed = observation(
        heard(NODE, a_replica(BEFORE, 0, "n1", [0]), load_times=(LoadTime(model="m", seconds=30.0),))
    )
    return decided(a_model(), observed), observed


def test_json_holds_every_key_of_the_contract() -> None:
    decision, _ = surge()
    told = json.loads(plan_json(decision.plan))
    assert told["format_version"] == "1.0"
    assert {"commit", "tree", "digest", "complete", "changes", "blocked", "impact"} <= told.keys()
    (change,) = told["changes"]
    assert change.keys() >= {
        "model", "replica", "action", "strategy", "reason", "fields", "schedule", "before", "after"
    }  # fmt: skip
    assert change["replica"] == "m/0"
    assert change["fields"] == [{"field": "context", "before": 1024, "after": 4096}]
    assert change["schedule"] == {"kind": "now", "on": [], "message": None}
    assert change["before"]["shards"] == [{"node": "n1", "gpus": [{"uuid": "GPU-n1-0", "index": 0}]}]
    assert change["after"]["id"].startswith("m/0@")
    assert told["impact"] == {
        "replaced": 1, "created": 0, "deleted": 0, "unchanged": 0, "seconds": 45.0, "outage_seconds": 0.0
    }  # fmt: skip


def test_json_of_a_block_and_of_a_cpu_placement() -> None:
    observed = observation(heard(NODE, a_replica(a_model(gpus=None), 0, "n1")))
    told = json.loads(plan_json(decided(a_model(gpus=None), observed).plan))
    assert told["changes"][0]["before"]["shards"] == [{"node": "n1", "gpus": []}]
    blocked = json.loads(plan_json(decided(a_model(gpus=8), observation(heard(NODE))).plan))["blocked"]
    assert [set(each) for each in blocked] == [{"model", "rule", "message", "hint", "digest"}]
    assert blocked[0]["digest"] is None


def held_back() -> tuple[Plan, Observation]:
    """Of two models that change one is suspended."""
    said = an_intent(
        IntentKind.SUSPEND, "m", reason="a <b> @vendor looks", expires_at=datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
    )
    other = a_model("other", gpus=1)
    observed = observation(heard(NODE, a_replica(BEFORE, 0, "n1", [0])))
    desired = a_desired([a_model(), other], [NODE])
    decision = plan(desired, observed, (said,), NOON, commit="9c2f4e1", tree="t1")
    return foresee(desired, observed, (said,), NOON, decision.plan, NoFigures()), observed


def test_what_a_suspension_holds_back_is_told_beside_what_goes_on_and_is_no_act() -> None:
    shown, observed = held_back()
    assert {change.model for change in shown.acts} == {"other"}
    text = plan_text(shown, observed, commit_line="commit 9c2f4e1", fleet="prod")
    assert "= m   held back: replace 1 replica, surge" in text
    assert "    suspended by a. person until 2026-12-01 09:30 UTC: a <b> @vendor looks" in text
    assert "context  1024 → 4096" in text
    told = json.loads(plan_json(shown))["held_back"]
    assert [(each["model"], each["author"], each["expires_at"]) for each in told] == [
        ("m", "a. person", "2026-12-01T09:30:00Z")
    ]


def test_in_a_comment_it_is_one_line_of_plain_text() -> None:
    shown, observed = held_back()
    text = plan_markdown(shown, observed, commit_line="commit 9c2f4e1", fleet="prod", apply_with="reconciler apply")
    (line,) = (each for each in text.splitlines() if each.startswith("- = m"))
    assert "held back: replace 1 replica, surge; suspended by a. person until" in line
    assert "<b>" not in line


def test_text_names_silent_nodes_below_its_first_line() -> None:
    observed = observation(heard(NODE), lost(a_node("n2")))
    text = plan_text(decided(a_model(), observed).plan, observed, commit_line="commit 9c2f4e1", fleet="prod")
    assert text.splitlines()[:2] == [
        "commit 9c2f4e1   fleet prod: 1 of 2 nodes heard",
        "  n2 does not answer: connection refused",
    ]


def test_of_many_silent_nodes_a_few_are_named_and_the_rest_is_counted() -> None:
    observed = observation(heard(NODE), *(lost(a_node(f"n{number}")) for number in range(2, 9)))
    text = plan_text(decided(a_model(), observed).plan, observed, commit_line="commit 9c2f4e1", fleet="prod")
    assert text.splitlines()[:5] == [
        "commit 9c2f4e1   fleet prod: 1 of 8 nodes heard",
        *(f"  n{number} does not answer: connection refused" for number in (2, 3, 4)),
        "  4 more nodes do not answer",
    ]


def test_a_node_without_an_agent_was_not_heard() -> None:
    """`address: local` before the first apply: what this machine knows of it is no answer."""
    observed = observation(heard(NODE).model_copy(update={"agent": False}))
    text = plan_text(decided(a_model(), observed).plan, observed, commit_line="commit 9c2f4e1", fleet="prod")
    assert text.splitlines()[:2] == [
        "commit 9c2f4e1   fleet prod: 0 of 1 nodes heard",
        "  n1: no agent runs there; apply starts it when there is work",
    ]


def test_a_plan_of_the_work_tree_cannot_be_applied_and_says_so() -> None:
    _, observed = surge()
    text = plan_text(decided(a_model(), observed, commit=None).plan, observed, commit_line=None, fleet="prod")
    assert text.startswith("work tree   fleet prod")
    assert text.endswith("the work tree cannot be applied: commit it first")


def test_a_plan_with_the_same_bytes_is_the_same_text() -> None:
    decision, observed = surge()
    texts = {plan_text(decision.plan, observed, commit_line=None, fleet="prod") for _ in range(3)}
    assert len(texts) == 1


def test_no_line_ends_in_a_space() -> None:
    decision, observed = surge()
    text = plan_text(decision.plan, observed, commit_line="commit 9c2f4e1", fleet="prod")
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("indices", "text"),
    [([], "cpu"), ([3], "[3]"), ([0, 1], "[0,1]"), ([7, 6, 5, 4], "[4-7]"), ([0, 1, 2, 5, 7, 8], "[0-2,5,7,8]")],
)
def test_indices(indices: list[int], text: str) -> None:
    assert indices_text(indices) == text


def test_a_placement_over_two_nodes_names_both() -> None:
    shards = (*shards_of("n1", [0, 1]), *shards_of("n2", [2, 3]))
    assert place_text(Placement(id="m/0@00000000", shards=shards)) == "n1 [0,1] + n2 [2,3]"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0.4 s"), (58.0, "58 s"), (60.0, "1 min"), (130.0, "2 min 10 s"), (3_900.0, "1 h 5 min")],
)
def test_seconds_as_a_person_says_them(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "0:00"), (32.9, "0:32"), (725.0, "12:05"), (3_600.0, "1:00:00")])
def test_a_running_time(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text
