"""`init`: what it writes is whole, passes the gate and the checks of workflows, and takes nothing that is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler import __version__
from reconciler.views.schemas import schema_text
from tests.git_repository import Repository

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
USES = "acme/reconciler@0123456789abcdef0123456789abcdef01234567"


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "reconciler", *words], cwd=directory, capture_output=True, text=True, check=False, timeout=60
    )


def written(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def parsed(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path)


ALWAYS = {
    *("cluster/cluster.yaml", "cluster/nodes/example.yaml", "cluster/models/example.yaml", "README.md"),
    *(".pre-commit-config.yaml", ".gitattributes"),
    *(f"schemas/{name}.schema.json" for name in ("cluster", "pool", "model")),
}


@pytest.mark.parametrize(
    ("forge", "files"),
    [
        ("github", {".github/workflows/gate.yml", ".github/workflows/gate-comment.yml"}),
        ("gitlab", {".gitlab/gate.yml", ".gitlab-ci.yml"}),
        ("none", set()),
    ],
)
def test_the_repository_passes_its_gate_from_its_first_commit_on(tmp_path: Path, forge: str, files: set[str]) -> None:
    made = run(tmp_path, "init", "--fleet", "prod", "--ci", forge)
    assert made.returncode == 0, made.stderr
    assert written(tmp_path) == ALWAYS | files
    assert len(made.stdout.splitlines()) == len(ALWAYS | files)

    Repository(tmp_path).commit({}, "first")
    for words in (("validate",), ("validate", "--commit", "HEAD"), ("plan",)):
        done = run(tmp_path, *words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "@" not in (tmp_path / "cluster" / "cluster.yaml").read_text()


def test_editors_find_a_schema_from_every_file(tmp_path: Path) -> None:
    run(tmp_path, "-C", "ops/fleet", "init", "--fleet", "prod")
    for path in (tmp_path / "ops" / "fleet").rglob("*.yaml"):
        prefix, _, schema = path.read_text().splitlines()[0].partition("$schema=")
        assert prefix == "# yaml-language-server: "
        found = (path.parent / schema).resolve()
        assert found.is_relative_to(tmp_path / "schemas")
        assert found.read_text() == schema_text(found.name.partition(".")[0])
    assert "directory: ops/fleet" in (tmp_path / ".github" / "workflows" / "gate.yml").read_text()
    assert run(tmp_path, "-C", "ops/fleet", "validate").returncode == 0


def test_its_workflows_stand_up_to_the_checks_of_our_own(tmp_path: Path) -> None:
    run(tmp_path, "init", "--uses", USES)
    workflows = tmp_path / ".github"
    done = subprocess.run(
        [BIN / "zizmor", "--offline", "--quiet", workflows], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    repository, _, ref = USES.partition("@")
    for name in ("gate", "gate-comment"):
        (job,) = parsed(workflows / "workflows" / f"{name}.yml")["jobs"].values()
        assert job["uses"] == f"{repository}/.github/workflows/{name}.yml@{ref}"


def test_what_it_calls_is_what_we_publish(tmp_path: Path) -> None:
    """The caller grants what the called workflow needs, and its inputs are inputs."""
    run(tmp_path, "init", "--uses", USES)
    for name in ("gate", "gate-comment"):
        caller = parsed(tmp_path / ".github" / "workflows" / f"{name}.yml")
        called = parsed(ROOT / ".github" / "workflows" / f"{name}.yml")
        (job,) = caller["jobs"].values()
        asked = {key for each in called["jobs"].values() for key in (each.get("permissions") or {})}
        assert asked <= set(job.get("permissions", caller["permissions"]))
        assert set(job.get("with", {})) <= set((called["on"]["workflow_call"] or {}).get("inputs", {}))
    assert parsed(tmp_path / ".github/workflows/gate-comment.yml")["on"]["workflow_run"]["workflows"] == [
        parsed(tmp_path / ".github/workflows/gate.yml")["name"]
    ]


def test_the_hook_is_one_that_we_publish(tmp_path: Path) -> None:
    run(tmp_path, "init", "--uses", USES)
    ((repository,),) = (parsed(tmp_path / ".pre-commit-config.yaml")["repos"],)
    published = {hook["id"] for hook in parsed(ROOT / ".pre-commit-hooks.yaml")}
    assert {hook["id"] for hook in repository["hooks"]} == published
    assert repository["rev"] == USES.partition("@")[2]


def test_the_gitlab_template_is_the_published_one(tmp_path: Path) -> None:
    run(tmp_path, "init", "--ci", "gitlab", "--uses", USES)
    assert (tmp_path / ".gitlab" / "gate.yml").read_text() == (ROOT / "docs" / "ci" / "gitlab.yml").read_text()
    own = parsed(tmp_path / ".gitlab-ci.yml")["reconciler:gate"]["variables"]
    assert own["RECONCILER_SOURCE"] == f"git+https://github.com/{USES}"
    assert set(own) <= set(parsed(tmp_path / ".gitlab" / "gate.yml")["reconciler:gate"]["variables"])


def test_without_a_place_it_says_what_to_write(tmp_path: Path) -> None:
    made = run(tmp_path, "init")
    assert "OWNER/reconciler" in made.stderr
    assert (
        f"OWNER/reconciler/.github/workflows/gate.yml@v{__version__}"
        in (tmp_path / ".github" / "workflows" / "gate.yml").read_text()
    )


@pytest.mark.parametrize("kind", ["file", "directory", "symlink", "parent is a file", "parent is a symlink"])
def test_nothing_is_written_where_something_is_there(tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place = tmp_path / "repo"
    place.mkdir()
    match kind:
        case "file":
            (place / "README.md").write_text("mine")
        case "directory":
            (place / "README.md").mkdir()
        case "symlink":
            (place / "README.md").symlink_to(outside / "nowhere")
        case "parent is a file":
            (place / "cluster").write_text("mine")
        case _:
            (place / "cluster").symlink_to(outside)
    before = sorted(tmp_path.rglob("*"))
    done = run(tmp_path, "init", "repo")

    assert done.returncode == 1
    assert done.stdout == ""
    assert "is there already" in done.stderr
    assert "nothing was written" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    [
        ("init", "--fleet", "Prod"),
        ("init", "--fleet", "prod\n"),
        ("init", "--uses", "acme"),
        ("init", "--uses", "acme/reconciler@"),
        ("init", "--ci", "jenkins"),
        ("-C", "/somewhere", "init"),
        ("-C", "../cluster", "init"),
        ("-C", "a b", "init"),
    ],
)
def test_what_cannot_be_is_refused_as_wrong_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 2, done.stderr
    assert written(tmp_path) == set()


def test_the_fleet_is_named_after_the_directory_where_nobody_names_it(tmp_path: Path) -> None:
    run(tmp_path, "init", "Our Fleet_2", "--ci", "none")
    run(tmp_path, "init", "___", "--ci", "none")
    assert "name: our-fleet-2\n" in (tmp_path / "Our Fleet_2" / "cluster" / "cluster.yaml").read_text()
    assert "name: fleet\n" in (tmp_path / "___" / "cluster" / "cluster.yaml").read_text()
