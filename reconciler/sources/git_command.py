"""Starting git as a child with a cleaned environment, and reading what it says when it refuses.

No prompt, no fetch, no hook, no fsmonitor, no replace refs. The person's own git configuration stays in force, since it
says which repositories of other users may be read (safe.directory) and which files are ignored; a commit cannot change
it. What the environment says of another repository (GIT_DIR and its kin, as inside a hook) does not.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

from reconciler.errors import SourceError
from reconciler.sources.tree import printable

if TYPE_CHECKING:
    from pathlib import Path

NO_REPOSITORY = "the cluster directory is not in a git repository"
"""What is said where git knows of none."""

# Reading local objects takes milliseconds; this is for a disk that hangs.
_TIMEOUT_SECONDS = 60

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")

# Where objects are is left to the caller's environment: a server-side hook has the pushed commits in quarantine.
_KEPT = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG")
SETTINGS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",  # messages are matched below
}
"""Environment of every git that reads for us."""

INDEX_VARIABLE = "GIT_INDEX_FILE"
"""Names the index that a commit is made from, inside a hook."""

_OPTIONS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "protocol.allow=never"),
    *("-c", "i18n.logOutputEncoding=UTF-8"),
    "--literal-pathspecs",
    "--no-pager",
)


def output(start: Path, *arguments: str, given: bytes = b"", index: Path | None = None) -> bytes:
    """The output of one git command; SourceError when it fails. `given` is its input, `index` another index file."""
    completed = run(start, *arguments, given=given, index=index)
    if completed.returncode != 0:
        refuse_unreadable(completed)
        raise SourceError(f"git {arguments[0]} failed: {_told(completed)}")
    return completed.stdout


def run(
    start: Path, *arguments: str, given: bytes = b"", index: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run one git command in a directory, whatever its outcome. SourceError when git is missing or hangs."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(_KEPT)}
    if index is not None:
        env[INDEX_VARIABLE] = str(index)
    try:
        return subprocess.run(
            ["git", *_OPTIONS, *arguments],  # noqa: S607  # the git that the person uses is found by PATH
            cwd=start,
            env={**env, **SETTINGS},
            input=given,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise SourceError("git is not installed", hint="install git; validate works without it") from None
    except subprocess.TimeoutExpired:
        raise SourceError(f"git {arguments[0]} did not answer within {_TIMEOUT_SECONDS} s") from None


def refuse_unreadable(completed: subprocess.CompletedProcess[Any]) -> None:
    """The two answers of git that say something about the repository, not about what was asked."""
    told = completed.stderr.decode("utf-8", "replace")
    if "not a git repository" in told:
        hint = "git init makes one; plan --worktree shows a plan without"
        raise SourceError(NO_REPOSITORY, hint=hint)
    owned = re.search(r"dubious ownership in repository at '([^'\n]*)'", told)
    if owned is not None:
        hint = f"if you trust it: git config --global --add safe.directory {printable(owned[1])}"
        raise SourceError("git does not read this repository: it belongs to another user", hint=hint)


def _told(completed: subprocess.CompletedProcess[Any]) -> str:
    """The last line of what git said, without credentials."""
    lines = completed.stderr.decode("utf-8", "replace").strip().splitlines()
    return _CREDENTIALS.sub("***@", printable(lines[-1].removeprefix("fatal: "))) if lines else "no reason given"


def line(told: bytes) -> str:
    """Output that is one line, as text."""
    return os.fsdecode(told.rstrip(b"\n"))
