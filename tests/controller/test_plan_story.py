"""One plan told in full, with figures out of locks: as text, as a comment, and as JSON by the published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from reconciler.controller.figures import foreseen
from reconciler.domain.desired import Desired
from reconciler.domain.intent import Intent, IntentKind
from reconciler.domain.lock import Lock
from reconciler.domain.observed import LoadTime
from reconciler.domain.plan import Plan
from reconciler.planning.planner import plan
from reconciler.planning.premises import premises, stale
from reconciler.views.plan import APPLY, plan_json, plan_text
from reconciler.views.plan_markdown import LONGEST, plan_markdown
from reconciler.views.schemas import schema
from tests.builders import FLEET, NOON, SOURCE, a_desired, a_model, a_node, a_replica, an_intent, heard, observation
from tests.conftest import compare
from tests.gate.locks import lock_text

HERE = Path(__file__).parent / "plans"
COMMIT = 'commit 9c2f4e1 "four GPUs for mixtral" (a. author, 3 min ago)'


def a_lock(shape: str) -> Lock:
    return Lock.model_validate_json(lock_text({"shape": shape}, f"source: {SOURCE}"))


def mixtral(gpus: int, **fields: Any) -> Any:
    profile = {"version": "0.32.0", "args": ["--api-key", "hunter2"]} | fields.pop("profile", {})
    return a_model("mixtral", replicas=2, gpus=gpus, context=8192, profile=profile, **fields)


def story(intents: tuple[Intent, ...] = ()) -> tuple[Plan, Any]:
    """Two replicas move to four GPUs, a model is removed, one is added on a class that nobody has room in."""
    nodes = [a_node("gpu-03"), a_node("gpu-07"), a_node("gpu-09"), a_node("l4-1", gpus=1, gpu_class="l4")]
    before, chat, embed = (
        mixtral(2, profile={"env": {"HF_TOKEN": "hunter2"}, "args": ["--api-key", "hunter1"]}),
        a_model("old-chat"),
        a_model("embed", gpu_class="l4"),
    )
    observed = observation(
        heard(nodes[0], load_times=(LoadTime(model="mixtral", seconds=130.0),)),
        heard(nodes[1], a_replica(before, 0, "gpu-07", [0, 1]), a_replica(before, 1, "gpu-07", [2, 3])),
        heard(nodes[2], a_replica(chat, 0, "gpu-09", [0])),
        heard(nodes[3], a_replica(embed, 0, "l4-1", [0])),
    )
    models = [mixtral(4), embed, a_model("second-embed", gpu_class="l4")]
    plain = a_desired(models, nodes)
    desired = Desired(plain.fleet, plain.nodes, plain.models, {"mixtral": a_lock("mixtral-8x7b")})
    made = plan(desired, observed, intents, NOON, commit="9c2f4e1", tree="t1").plan
    return foreseen(desired, observed, intents, NOON, made), observed


def test_text(rewrite: bool) -> None:
    made, observed = story()
    text = plan_text(made, observed, commit_line=COMMIT, fleet=FLEET)
    compare(HERE / "story.txt", text + "\n", rewrite=rewrite)
    assert "hunter" not in text


def test_markdown(rewrite: bool) -> None:
    made, observed = story()
    text = plan_markdown(made, observed, commit_line=COMMIT, fleet=FLEET, apply_with=f"{APPLY} p.json")
    compare(HERE / "story.md", text, rewrite=rewrite)
    assert "hunter" not in text


def test_json_holds_to_the_published_schema_and_no_secret() -> None:
    made, _ = story()
    text = plan_json(made)
    Draft202012Validator(schema("plan")).validate(json.loads(text))
    assert "hunter" not in text
    told = {each["model"]: each for each in json.loads(text)["models"]}
    assert told["mixtral"]["memory_after"]["usable_gib"] > told["mixtral"]["memory_after"]["needs_gib"] > 0


def test_what_a_suspension_holds_back_tells_no_secret_either() -> None:
    made, observed = story((an_intent(IntentKind.SUSPEND, "mixtral"),))
    (held,) = made.held_back
    assert {"env.HF_TOKEN", "args"} <= {field.field for change in held.changes for field in change.fields}
    text = plan_text(made, observed, commit_line=COMMIT, fleet=FLEET)
    comment = plan_markdown(made, observed, commit_line=COMMIT, fleet=FLEET, apply_with=APPLY)
    for told in (text, comment, plan_json(made)):
        assert "held" in told
        assert "hunter" not in told


def test_markdown_of_a_plan_that_does_nothing() -> None:
    node = a_node("n1", gpus=1)
    observed = observation(heard(node, a_replica(a_model(), 0, "n1", [0])))
    made = plan(a_desired([a_model()], [node]), observed, (), NOON, commit="9c2f4e1").plan
    text = plan_markdown(made, observed, commit_line=COMMIT, fleet=FLEET, apply_with=APPLY)
    assert "### No changes" in text
    assert "1 replica of 1 model is as desired" in text


def test_markdown_stays_within_what_a_forge_takes() -> None:
    nodes = [a_node(f"n{number:03}") for number in range(500)]
    models = [a_model(f"model-{number:04}", gpus=8) for number in range(600)]
    desired, observed = a_desired(models, nodes), observation(*(heard(node) for node in nodes))
    made = foreseen(desired, observed, (), NOON, plan(desired, observed, (), NOON, commit="9c2f4e1").plan)
    text = plan_markdown(made, observed, commit_line=COMMIT, fleet=FLEET, apply_with=APPLY)
    assert len(text.encode()) <= LONGEST
    assert "… and more" in text


def test_foreign_words_close_no_fence_and_call_nobody() -> None:
    made, observed = story()
    line = 'commit 9c2f4e1 "``` @everyone <img src=x>" (a. author)'
    text = plan_markdown(made, observed, commit_line=line, fleet=FLEET, apply_with=APPLY)
    shown, _, steps = text.partition("<details>")
    assert "`@`everyone" in shown
    assert "<img" not in shown
    assert "````text" in steps


def test_a_plan_with_hidden_secrets_still_holds_when_it_is_made_anew() -> None:
    made, observed = story()
    anew, _ = story()
    assert stale(made, premises(made, observed), anew, observed) == ()
