"""Facts about the repository itself that no other tool holds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

LONGEST_MODULE = 400
"""Lines; in nearly every code base we looked at, the worst file is the longest one."""

BROAD_EXCEPTS = {
    "reconciler/cli/": 1,  # the outermost handler
    "reconciler/controller/": 1,  # one reconcile of one key
    "reconciler/agent/": 2,  # one supervision step of one replica; one agent request
    "reconciler/sources/": 1,  # one YAML document
}
"""How many `except Exception` each package may have. Everywhere else: none."""

MACHINE_PATH = re.compile(
    r"(?<![\w./])(?:/work/|/root/|" + "|".join(re.escape(f"{path}/") for path in (Path.home(), ROOT)) + r")\w"
)
"""Where somebody's checkout or home is: here, or on the machines this project is built on."""

REGISTRY = re.compile(
    r"(?i)https?://[^\s\"'<>)]*(?:pypi|pythonhosted|npmjs|debian)|--(?:extra-)?index[-]url|--find[-]links"
)


@cache
def files() -> tuple[Path, ...]:
    """What git tracks or would track; a check that sees no file is a check that cannot fail."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    ).stdout.decode()
    found = tuple(ROOT / name for name in sorted(set(listed.split("\0"))) if name and (ROOT / name).is_file())
    assert ROOT / "pyproject.toml" in found
    return found


def inside(folder: str, suffix: str = ".py") -> list[Path]:
    found = [path for path in files() if path.is_relative_to(ROOT / folder) and path.suffix == suffix]
    assert found, f"no {suffix} file under {folder}/"
    return found


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_bytes(), name(path)))


def dotted(node: ast.expr | None) -> str:
    """`time.sleep` for an attribute of a name; empty for anything that is no plain dotted name."""
    match node:
        case ast.Name(id):
            return id
        case ast.Attribute(value, attr):
            return f"{dotted(value)}.{attr}"
        case _:
            return ""


def test_no_module_is_too_long() -> None:
    lengths = {name(path): path.read_bytes().count(b"\n") for path in inside("reconciler") + inside("tests")}
    assert {each: lines for each, lines in lengths.items() if lines > LONGEST_MODULE} == {}


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["machine path", "package registry"])
def test_no_file_names_a_machine_path_or_a_package_registry(pattern: re.Pattern[str]) -> None:
    texts = ((path, path.read_bytes().decode(errors="replace")) for path in files())
    assert [f"{name(path)}: {found[0]}" for path, text in texts for found in pattern.finditer(text)] == []


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether it catches everything and keeps it; one that ends in a bare `raise` only tidies up on the way."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    catches_all = any(kind is None or dotted(kind) in {"Exception", "BaseException"} for kind in kinds)
    last = handler.body[-1]
    return catches_all and not (isinstance(last, ast.Raise) and last.exc is None)


def broad_lines(path: Path) -> list[int]:
    suppressing = [
        node.lineno
        for node in nodes(path)
        if isinstance(node, ast.Call) and dotted(node.func).endswith("suppress")
        if any(dotted(kind) in {"Exception", "BaseException"} for kind in node.args)
    ]
    return suppressing + [node.lineno for node in nodes(path) if isinstance(node, ast.ExceptHandler) and is_broad(node)]


def test_broad_excepts_stand_only_where_the_design_allows_them() -> None:
    left = dict(BROAD_EXCEPTS)
    for path in inside("reconciler"):
        package = next((each for each in left if name(path).startswith(each)), None)
        for line in broad_lines(path):
            assert package is not None, f"{name(path)}:{line} catches everything; no place in this package may"
            left[package] -= 1
            assert left[package] >= 0, f"{name(path)}:{line} is one broad except more than {package} may have"


def test_every_broad_except_says_why() -> None:
    for path in inside("reconciler"):
        lines = path.read_text().splitlines()
        for line in broad_lines(path):
            comment = re.sub(r"noqa: *[A-Z0-9, ]+", "", lines[line - 1].partition("#")[2]).strip("# ")
            assert len(comment.split()) > 2, f"{name(path)}:{line} has no comment on why everything is caught"


def uses_of_mocks(path: Path) -> Iterator[str]:
    for node in nodes(path):
        match node:
            case ast.Import(names) if any(alias.name.split(".")[-1] == "mock" for alias in names):
                yield f"{name(path)}:{node.lineno} imports mock"
            case ast.ImportFrom(module=module, names=names) if (module or "").endswith("mock") or any(
                alias.name == "mock" for alias in names
            ):
                yield f"{name(path)}:{node.lineno} imports mock"
            case ast.arg(arg="mocker"):
                yield f"{name(path)}:{node.lineno} asks for mocker"
            case ast.Call(func=ast.Attribute(attr="setattr")):
                yield f"{name(path)}:{node.lineno} patches an attribute"
            case _:
                continue


def test_no_test_mocks_or_patches_anything() -> None:
    assert [use for path in inside("tests") for use in uses_of_mocks(path)] == []


def test_no_test_sleeps() -> None:
    """A test waits for a fact with a deadline, or is given a clock: a sleep is too short one day, too long the rest.

    Only the helper that waits may pause between two looks.
    """
    sleeps = {f"{module}.sleep" for module in ("time", "asyncio", "anyio", "trio")} | {"sleep"}
    found = [
        f"{name(path)}:{node.lineno}"
        for path in inside("tests")
        if path.name != "waiting.py"
        for node in nodes(path)
        if isinstance(node, ast.Call) and dotted(node.func) in sleeps
    ]
    assert found == []


def test_imports_point_down() -> None:
    told = subprocess.run([BIN / "lint-imports", "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


# --- dependencies ---


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def normalised(requirement: str) -> str:
    """A package's name as registries compare it: `ruamel.yaml>=0.19` is `ruamel-yaml`."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[=<>!~;]", requirement, maxsplit=1)[0]).lower()


def requirements() -> list[str]:
    table = project()["project"]
    groups: Iterable[list[str]] = [
        table["dependencies"],
        *table["optional-dependencies"].values(),
        *project()["dependency-groups"].values(),
    ]
    return [requirement for group in groups for requirement in group]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {normalised(line): line for line in lines if line and not line.startswith("#")}


def test_constraints_pin_every_dependency_to_one_version() -> None:
    assert [line for line in pins().values() if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    declared = requirements() + project()["build-system"]["requires"]
    assert [each for each in declared if normalised(each) not in pins()] == []


def test_constraints_agree_with_what_pyproject_pins_itself() -> None:
    exact = [each for each in requirements() + project()["build-system"]["requires"] if "==" in each]
    assert [each for each in exact if pins()[normalised(each)].lower() != each.lower()] == []


def test_the_readme_gives_each_dependency_a_reason() -> None:
    readme = (ROOT / "README.md").read_text()
    lines_by_package = {
        normalised(each): re.split(r"[\s\[=<>!~;]", each, maxsplit=1)[0] for each in requirements()
    }.values()
    missing = [each for each in lines_by_package if not re.search(rf"(?<![\w.-]){re.escape(each)}(?![\w-])", readme)]
    assert missing == [], "README.md names none of these dependencies, so nobody knows why they are there"


# --- documents ---


def packages() -> str:
    return "|".join(path.name for path in sorted((ROOT / "reconciler").iterdir()) if (path / "__init__.py").is_file())


def resolve(dotted_name: str) -> object:
    """What a name such as `gate.check.report` stands for; it is imported as far as modules go."""
    module, *attributes = dotted_name.split(".")
    found: object = import_module(f"reconciler.{module}")
    for step in attributes:
        module = f"{module}.{step}"
        if not hasattr(found, step):
            import_module(f"reconciler.{module}")
        found = getattr(found, step)
    return found


NAMED_IN_THE_TOUR = sorted(
    set(re.findall(rf"`((?:{packages()})(?:\.\w+)+)", (ROOT / "reconciler" / "README.md").read_text()))
)


def test_the_tour_of_the_code_names_code() -> None:
    assert len(NAMED_IN_THE_TOUR) > 10


@pytest.mark.parametrize("dotted_name", NAMED_IN_THE_TOUR)
def test_what_the_tour_of_the_code_names_is_there(dotted_name: str) -> None:
    assert resolve(dotted_name) is not None


# --- cluster/ ---


def test_the_cluster_of_the_demo_passes_the_gate() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "reconciler", "validate"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("path", inside("cluster", ".yaml"), ids=name)
def test_the_first_line_leads_an_editor_to_the_schema(path: Path) -> None:
    prefix, _, schema = path.read_text().splitlines()[0].partition("$schema=")
    assert prefix == "# yaml-language-server: "
    assert (path.parent / schema).resolve().is_relative_to(ROOT / "schemas")
    assert (path.parent / schema).is_file()


# --- workflows ---


def workflow(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = YAML(typ="safe", pure=True).load(path)
    return parsed


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(path)["jobs"].values() for step in job["steps"]]


def test_there_are_workflows() -> None:
    assert {path.name for path in WORKFLOWS} >= {"check.yml", "gate.yml", "gate-comment.yml"}


WRITES = {"gate-comment.yml": {"comment": {"actions": "read", "pull-requests": "write"}}}
"""Jobs that may do more than read the repository, and what."""

CALLER_DECIDES = {"gate.yml": {"code-scanning"}}
"""Jobs of reusable workflows that take what their caller grants: to ask for more would stop every other caller."""


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
class TestWorkflow:
    """What makes a workflow safe on a pull request from a stranger."""

    def test_it_is_given_no_secrets_and_may_only_read(self, path: Path) -> None:
        parsed = workflow(path)
        assert "pull_request_target" not in parsed["on"]
        assert "secrets." not in path.read_text()
        for name, job in parsed["jobs"].items():
            assert "timeout-minutes" in job
            granted = job.get("permissions", parsed.get("permissions"))
            if name in CALLER_DECIDES.get(path.name, ()):
                assert granted is None
                assert set(parsed["on"]) == {"workflow_call"}
            else:
                assert granted == WRITES.get(path.name, {}).get(name, {"contents": "read"})

    def test_what_may_write_checks_out_nothing(self, path: Path) -> None:
        for name in WRITES.get(path.name, ()):
            assert not [step for step in workflow(path)["jobs"][name]["steps"] if "checkout" in step.get("uses", "")]

    def test_no_script_contains_an_expression(self, path: Path) -> None:
        scripts = [step["run"] for step in steps(path) if "run" in step]
        assert scripts
        assert [script for script in scripts if "${{" in script] == []

    def test_every_action_is_named_by_its_commit(self, path: Path) -> None:
        actions = [step["uses"] for step in steps(path) if "uses" in step]
        assert [action for action in actions if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action)] == []

    def test_no_checkout_leaves_its_token_behind(self, path: Path) -> None:
        checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]
        assert checkouts or path.name in WRITES
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)
