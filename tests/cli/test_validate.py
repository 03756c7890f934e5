"""`validate` as it is called: what it reads, what it compares with, how it answers, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from tests.sources.repositories import ENVIRONMENT, Repository, a_repository
from tests.sources.trees import MODEL

if TYPE_CHECKING:
    from pathlib import Path

POOL = """\
pool: gpu
gpus: {class: h100-80gb, count: 8}
memory_gib: 1024
address: https://{node}.gpu.internal:7443
nodes: ["gpu-[01-03]"]
"""
GOOD = MODEL + "    gpus: 4\nunverified: true\n"
BAD = GOOD.replace("gpus: 4", "gpus: 99")
FORMATS = ("text", "json", "github", "sarif", "junit", "markdown")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A fleet that passes, committed."""
    made = a_repository(tmp_path / "r")
    made.write("nodes/gpu.yaml", POOL)
    made.write("models/llama.yaml", GOOD)
    made.commit("it passes")
    return made


def run(repository: Repository, *words: str, code: int = 0, **environ: str) -> subprocess.CompletedProcess[str]:
    cache = {"RECONCILER_CACHE_DIR": str(repository.top / ".git" / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", "validate", *words],
        cwd=repository.top,
        env={**ENVIRONMENT, **cache, **environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def told(repository: Repository, *words: str, code: int = 0) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(repository, *words, "--format", "json", code=code).stdout)
    return answer


def rules(repository: Repository, *words: str, code: int = 0) -> set[str]:
    return {each["rule"] for each in told(repository, *words, code=code)["findings"] if each["severity"] == "error"}


def test_each_place_is_judged_by_itself(repository: Repository) -> None:
    repository.write("models/llama.yaml", BAD)
    assert "inventory/gpus-range" in rules(repository, code=1)
    assert rules(repository, "--staged") == rules(repository, "--commit", "HEAD") == set()

    repository.git("add", "--all")
    repository.write("models/llama.yaml", GOOD)
    assert "inventory/gpus-range" in rules(repository, "--staged", code=1)
    assert rules(repository) == rules(repository, "--commit", "HEAD") == set()

    repository.git("commit", "-m", "it does not pass")
    assert "inventory/gpus-range" in rules(repository, "--commit", "HEAD", code=1)
    assert rules(repository) == rules(repository, "--commit", "HEAD~1") == set()


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_ends_as_the_gate_does(repository: Repository, form: str) -> None:
    run(repository, "--format", form)
    repository.write("models/llama.yaml", BAD)
    out = run(repository, "--format", form, "--base", "HEAD", code=1).stdout

    assert "inventory/gpus-range" in out
    if form == "sarif":
        assert json.loads(out)["runs"][0]["tool"]["driver"]["semanticVersion"]
    if form == "junit":
        names = [case.get("name") for case in ET.fromstring(out).iter("testcase")]
        assert names == ["cluster/cluster.yaml", "cluster/models/llama.yaml", "cluster/nodes/gpu.yaml"]


def test_a_base_tells_what_changes_and_what_was_there_before(repository: Repository) -> None:
    repository.write("models/other.yaml", GOOD.replace("llama\n", "other\n", 1).replace("context", "contxt"))
    repository.commit("something is wrong")
    repository.write("models/llama.yaml", GOOD.replace("gpus: 4", "gpus: 8"))
    repository.write("models/third.yaml", BAD.replace("llama\n", "third\n", 1))
    answer = told(repository, "--base", "HEAD", code=1)

    caused = {(each["model"], each["rule"]): each["caused"] for each in answer["findings"]}
    assert caused["other", "yaml/unknown-field"] is False
    assert caused["third", "inventory/gpus-range"] is True
    assert {each["model"]: each["action"] for each in answer["changes"]} == {"llama": "replace", "third": "create"}
    assert [each["gpu_class"] for each in answer["ledger"]] == ["h100-80gb"]
    text = run(repository, "--base", "HEAD", code=1).stdout
    assert "there is no field contxt (was there before)" in text
    assert "~ llama  is replaced: gpus 4 → 8" in text


def test_without_a_base_nothing_is_said_of_changes(repository: Repository) -> None:
    repository.write("models/llama.yaml", BAD)
    answer = told(repository, code=1)

    assert answer["changes"] is answer["ledger"] is None
    assert {each["caused"] for each in answer["findings"]} == {None}


def test_an_error_that_was_there_before_fails_all_the_same(repository: Repository) -> None:
    repository.write("models/llama.yaml", BAD)
    repository.commit("it does not pass")

    assert {each["caused"] for each in told(repository, "--base", "HEAD", code=1)["findings"]} == {False}


def test_a_surge_without_room_is_an_error_only_where_the_change_needs_it(repository: Repository) -> None:
    full = GOOD.replace("gpus: 4", "gpus: 8") + "scaling: {min: 3}\nrollout: {strategy: surge}\n"
    repository.write("models/llama.yaml", full)
    assert "rollout/no-surge-room" not in rules(repository)
    repository.commit("the fleet is full")
    assert "rollout/no-surge-room" not in rules(repository, "--base", "HEAD")
    repository.write("models/llama.yaml", full + "owner: search\n")
    assert "rollout/no-surge-room" not in rules(repository, "--base", "HEAD")
    repository.write("models/llama.yaml", full.replace("32768", "16384"))

    assert "rollout/no-surge-room" in rules(repository, "--base", "HEAD", code=1)
    assert "rollout/no-surge-room" not in rules(repository)


def test_a_base_from_before_the_cluster_directory_has_nothing(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "--orphan", "empty")
    repository.git("rm", "-r", "--quiet", "--cached", "cluster")
    repository.git("commit", "--allow-empty", "-m", "nothing")
    done = run(repository, "--base", "HEAD", "--format", "json")

    assert [each["action"] for each in json.loads(done.stdout)["changes"]] == ["create"]
    assert "everything counts as added" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--staged", "--commit", "HEAD"), "--staged and --commit"),
        (("--commit", "nowhere"), "there is no commit nowhere"),
        (("--base", "nowhere"), "there is no commit nowhere"),
        (("--base", "--output=x"), "is not a revision"),
        (("--staged", "elsewhere"), "nothing of elsewhere is staged"),
        (("elsewhere",), "there is no directory elsewhere"),
        (("--format", "yaml"), "yaml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_judged_ends_with_2(repository: Repository, words: tuple[str, ...], said: str) -> None:
    assert said in run(repository, *words, code=2).stderr


def test_outside_of_git_the_work_tree_is_judged_and_a_base_is_not(tmp_path: Path) -> None:
    bare = Repository(tmp_path)
    bare.write("cluster.yaml", "name: prod\n")
    above = str(tmp_path.parent)

    run(bare, GIT_CEILING_DIRECTORIES=above)
    done = run(bare, "--base", "HEAD", code=2, GIT_CEILING_DIRECTORIES=above)
    assert "not in a git repository" in done.stderr


def test_a_commit_of_a_directory_that_the_work_tree_lacks(repository: Repository) -> None:
    repository.git("rm", "-r", "--quiet", "cluster")

    run(repository, code=2)
    run(repository, "--commit", "HEAD")


def test_the_summary_of_a_step_gets_the_comment(repository: Repository) -> None:
    summary = repository.top / "summary.md"
    summary.write_text("before\n")
    repository.write("models/llama.yaml", BAD)
    run(repository, "--format", "github", code=1, GITHUB_STEP_SUMMARY=str(summary))
    run(repository, "--format", "text", code=1, GITHUB_STEP_SUMMARY=str(summary))
    comment = run(repository, "--format", "markdown", code=1, GITHUB_STEP_SUMMARY=str(summary)).stdout

    assert summary.read_text() == f"before\n{comment}\n"
    blocked = run(repository, "--format", "github", code=1, GITHUB_STEP_SUMMARY=str(repository.top / "no" / "x"))
    assert "GITHUB_STEP_SUMMARY cannot be written" in blocked.stderr


@pytest.mark.parametrize("words", [(), ("--no-cache",)], ids=["cached", "not cached"])
def test_the_answer_does_not_hang_on_the_cache(repository: Repository, words: tuple[str, ...]) -> None:
    repository.write("models/llama.yaml", BAD)
    outs = [run(repository, "--format", "markdown", *words, code=1).stdout for _ in range(2)]
    kept = list((repository.top / ".git").glob("cache/*"))

    assert outs[0] == outs[1]
    assert "inventory/gpus-range" in outs[0]
    assert bool(kept) == (not words)


def test_a_commit_of_one_file_is_judged_as_that_commit_will_be(repository: Repository) -> None:
    """A real hook: git gives it the index of the commit that is made, which is not the one that `git add` fills."""
    hook = repository.top / ".git" / "hooks" / "pre-commit"
    hook.write_text(
        f'#!/bin/sh\nPYTHONPATH="{os.pathsep.join(sys.path)}" exec "{sys.executable}" -m reconciler validate --staged\n'
    )
    hook.chmod(0o755)
    repository.write("models/llama.yaml", BAD)
    repository.git("add", "--all")
    repository.write("cluster.yaml", "name: other\n")

    repository.git("commit", "--quiet", "-m", "only the name", "--", "cluster/cluster.yaml")
    with pytest.raises(AssertionError, match="gpus-range"):
        repository.git("commit", "--quiet", "-m", "all of it")


@pytest.mark.parametrize("words", [("validate",), ("validate", "--format", "json"), ("--help",), ("schema", "model")])
def test_a_result_that_cannot_be_written_is_said_and_is_no_fault_of_ours(
    repository: Repository, words: tuple[str, ...]
) -> None:
    """`reconciler validate > FILE` on a full disk: the answer is lost, so the exit is not 0."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123  # a device
        done = subprocess.run(
            [sys.executable, "-m", "reconciler", *words],
            cwd=repository.top,
            env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    told = "error: the result cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, f"{told}  fix: free space where the output goes, and run it again\n")


def test_a_reader_that_has_had_enough_is_no_error(repository: Repository) -> None:
    """`reconciler validate | head -0`."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", "validate"],
        cwd=repository.top,
        env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
