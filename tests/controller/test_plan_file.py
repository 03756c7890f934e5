"""Plan files and saved observations on disk: private, without secrets, read back as they were, a plan used once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.controller.aim import Aim
from reconciler.controller.plan_file import claim_use, read_plan, used_at, write_plan
from reconciler.controller.planned import saved_plan
from reconciler.controller.saved_observation import read_observation, write_observation
from reconciler.domain.base import canonical_json
from reconciler.errors import StalePlan, UsageError
from reconciler.planning.planner import plan
from reconciler.sources.tree import CommitInfo
from tests.builders import FLEET, NOON, a_desired, a_model, a_node, a_replica, heard, lost, observation

if TYPE_CHECKING:
    from pathlib import Path

SHA, TREE = "9c2f4e1" + "0" * 33, "t1"
NODE = a_node("n1", gpus=4)
SECRET = {"env": {"HF_TOKEN": "hunter2", "KEY": {"secret": "key"}}}
RUNNING = a_replica(a_model(context=1024, profile=SECRET), 0, "n1", [0], state_for=timedelta(seconds=90))
OBSERVED = observation(heard(NODE, RUNNING), lost(a_node("n2"), a_replica(a_model("x", profile=SECRET), 0, "n2", [0])))


def an_aim(tree: str = TREE, **fleet: Any) -> Aim:
    desired = a_desired([a_model(profile=SECRET)], [NODE, a_node("n2")], **fleet)
    return Aim(desired, CommitInfo(SHA, "subject", "author", NOON), tree)


def written(path: Path, aim: Aim | None = None) -> Path:
    chosen = aim or an_aim()
    made = plan(chosen.desired, OBSERVED, (), NOON, commit=SHA, tree=TREE).plan
    write_plan(path, chosen, made, OBSERVED, None, NOON)
    return path


def test_a_plan_comes_back_as_it_was_and_holds_no_secret(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    file, _ = read_plan(path)
    assert (file.fleet, file.commit, file.tree, file.created_at) == (FLEET, SHA, TREE, NOON)
    assert file.plan == plan(an_aim().desired, OBSERVED, (), NOON, commit=SHA, tree=TREE).plan
    assert [premise.replica for premise in file.premises] == [change.replica for change in file.plan.acts] == ["m/0"]
    assert "hunter2" not in path.read_text("utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path], "nothing is left beside it"


def test_the_same_plan_is_the_same_bytes(tmp_path: Path) -> None:
    assert written(tmp_path / "a").read_bytes() == written(tmp_path / "b").read_bytes()
    content = json.loads((tmp_path / "a").read_bytes())
    assert (tmp_path / "a").read_bytes() == canonical_json(content) + b"\n"


def test_every_change_to_the_file_is_noticed(tmp_path: Path) -> None:
    content = json.loads(written(tmp_path / "p.json").read_bytes())
    for key in content:
        if key not in {"kind", "format_version"}:
            (tmp_path / "q.json").write_bytes(canonical_json(content | {key: "another"}))
            with pytest.raises(UsageError, match="changed or cut"):
                read_plan(tmp_path / "q.json")


@pytest.mark.parametrize("told", ["1.1", "2.0", "0.9"])
def test_another_format_is_named_before_anything_else(tmp_path: Path, told: str) -> None:
    content = json.loads(written(tmp_path / "p.json").read_bytes())
    (tmp_path / "p.json").write_bytes(canonical_json(content | {"format_version": told, "later": 1}))
    with pytest.raises(UsageError, match=f"has format {told}, and this reconciler reads 1.0"):
        read_plan(tmp_path / "p.json")


@pytest.mark.parametrize("told", ["one", "", 1, "1.²"])
def test_a_format_that_cannot_be_read(tmp_path: Path, told: object) -> None:
    (tmp_path / "p.json").write_bytes(canonical_json({"kind": "reconciler-plan", "format_version": told}))
    with pytest.raises(UsageError, match="has no format version"):
        read_plan(tmp_path / "p.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "nul", '"x"', "[" * 100_000, '{"kind": "other"}'])
def test_what_is_no_plan_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text, "utf-8")
    with pytest.raises(UsageError, match="is not a plan file"):
        read_plan(tmp_path / "p.json")


def test_a_directory_is_no_plan_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a plan file"):
        read_plan(tmp_path)


def test_a_plan_is_used_once_whoever_comes_first(tmp_path: Path) -> None:
    _, mark = read_plan(written(tmp_path / "p.json"))
    assert used_at(tmp_path / "state", mark) is None
    claim_use(tmp_path / "state", mark, SHA)
    assert used_at(tmp_path / "state", mark) is not None
    with pytest.raises(StalePlan, match="was carried out already"):
        claim_use(tmp_path / "state", mark, SHA)
    with pytest.raises(StalePlan, match="was carried out already"):
        saved_plan(tmp_path / "p.json", an_aim(), tmp_path / "state")


def test_a_plan_of_another_tree_or_fleet(tmp_path: Path) -> None:
    path, state = written(tmp_path / "p.json"), tmp_path / "state"
    assert saved_plan(path, an_aim(), state).scope == {"m"}
    with pytest.raises(StalePlan, match="asks for something else"):
        saved_plan(path, an_aim(tree="t2"), state)
    with pytest.raises(UsageError, match="is a plan of fleet prod, and this is fleet lab"):
        saved_plan(path, an_aim(name="lab"), state)


def test_an_observation_comes_back_without_the_texts_of_variables(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    write_observation(path, FLEET, OBSERVED, NOON)
    assert "hunter2" not in path.read_text("utf-8")
    back = read_observation(path, FLEET)
    assert [node.name for node in back.nodes] == ["n1", "n2"]
    assert back.reachable[0].replicas[0].state_for == timedelta(seconds=90)
    aim = an_aim()
    digests = {plan(aim.desired, seen, (), NOON).plan.digest for seen in (back, observation(*back.nodes))}
    assert len(digests) == 1
    same = a_desired([a_model(context=1024, profile=SECRET)], [NODE, a_node("n2")])
    assert [c.reason for c in plan(same, back, (), NOON).plan.changes if c.model == "m"] == ["matches"]
    with pytest.raises(UsageError, match="taken of fleet prod, and this is fleet lab"):
        read_observation(path, "lab")


def test_a_bare_observation_is_taken_too(tmp_path: Path) -> None:
    (tmp_path / "seen.json").write_text(OBSERVED.model_dump_json(), "utf-8")
    assert read_observation(tmp_path / "seen.json", FLEET) == OBSERVED
