"""`--help` stays lean, and the exit codes and streams of the design hold."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reconciler import __version__
from tests.e2e.site import Site

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = ("pydantic", "fastapi", "git", "ruamel", "httpx", "anyio", "psutil", "watchfiles", "uvicorn")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom reconciler.cli.main import outcome\ncode = outcome(['--help'])\n"
        f"loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "print(loaded, file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    for command in ("validate", "fit", "plan", "apply", "run", "status", "lock", "agent", "explain", "schema", "init"):
        assert command in done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """One machine for all tests of this module: none of them changes its commit or starts anything."""
    machine = Site(tmp_path_factory.mktemp("m"))
    machine.model()
    machine.commit()
    return machine


def test_version(site: Site) -> None:
    assert site.run("--version").stdout == f"reconciler {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("validate",), 0),
        (("validate", "nowhere"), 2),
        (("-C", "nowhere", "validate"), 2),
        (("validate", "--no-such-flag"), 2),
        (("plan", "--no-such-flag"), 1),
        (("plan",), 0),
        (("plan", "--detailed-exitcode"), 2),
        (("plan", "--model", "nobody"), 1),
        (("plan", "--commit", "nowhere"), 1),
        (("apply",), 1),
        (("-C", "nowhere", "plan"), 1),
        (("explain", "inventory/node-too-small"), 0),
        (("explain", "gpus"), 0),
        (("explain", "gpuz"), 2),
        (("schema", "model"), 0),
        (("schema", "nothing"), 2),
        (("lock", "nobody"), 2),
        (("agent",), 2),
        (("no-such-command",), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_exit_codes(site: Site, arguments: tuple[str, ...], code: int) -> None:
    done = site.run(*arguments, code=code)
    assert "Traceback" not in done.stderr
    if code in {1, 2} and "--detailed-exitcode" not in arguments:
        assert done.stderr.strip(), "an error says what happened"


def test_json_is_alone_on_stdout(tmp_path: Path) -> None:
    site = Site(tmp_path / "m")
    site.model()
    site.commit()
    site.model(context=512)  # uncommitted: noted, on stderr
    for arguments in (("validate",), ("plan",), ("status",)):
        done = site.run(*arguments, "--format", "json")
        assert json.loads(done.stdout)["format_version"] == "1.0"


def test_without_a_terminal_apply_refuses_and_does_nothing(site: Site) -> None:
    done = site.run("apply", code=1)
    assert "--auto-approve" in done.stderr
    assert site.processes() == []
    assert not site.state.exists()


def test_a_directory_outside_git_is_one_clear_message(tmp_path: Path) -> None:
    site = Site(tmp_path / "m")
    site.model()
    subprocess.run(["rm", "-rf", str(site.root / ".git")], check=True)
    site.env["GIT_CEILING_DIRECTORIES"] = str(tmp_path)
    assert site.run("validate").returncode == 0
    done = site.run("plan", code=1)
    assert "git" in done.stderr
    assert "fix:" in done.stderr


def test_an_invalid_commit_shows_every_finding_and_does_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path / "m")
    site.model(contxt="1", owner="[]")
    site.commit()
    for command in (("plan",), ("apply", "--auto-approve")):
        done = site.run(*command, code=1)
        assert "yaml/unknown-field" in done.stderr
        assert "yaml/type" in done.stderr
        assert "cluster/models/tiny.yaml:9:1" in done.stderr
    assert site.processes() == []


def test_a_closed_stdout_ends_without_a_traceback() -> None:
    command = f"{sys.executable} -c 'from reconciler.cli.main import main; main()' schema >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # `>&-` is the shell's
    assert "Traceback" not in done.stderr
