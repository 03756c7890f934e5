"""What to make real: the blobs of one commit, checked by the gate. A commit that does not pass is no aim."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.errors import InvalidCluster, SourceError
from reconciler.gate.check import check, report
from reconciler.sources.loader import UNNAMED, load
from reconciler.sources.repository import read_tree
from reconciler.sources.worktree import read_worktree

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.desired import Desired
    from reconciler.domain.finding import GateReport
    from reconciler.sources.loaded import Loaded
    from reconciler.sources.tree import CommitInfo, Tree


@dataclass(frozen=True, slots=True)
class Checked:
    """One tree with the gate's answer."""

    tree: Tree
    loaded: Loaded
    report: GateReport


@dataclass(frozen=True, slots=True)
class Aim:
    """A desired side that passed the gate, and where it comes from."""

    desired: Desired
    commit: CommitInfo | None
    """None for the work tree: it can be shown, never applied."""
    tree_id: str | None

    @property
    def sha(self) -> str | None:
        """The commit's full id."""
        return self.commit.sha if self.commit else None


def check_tree(tree: Tree) -> Checked:
    """Load one tree and run every rule over it; all findings at once."""
    started = time.monotonic()
    loaded = load(tree)
    ruled = check(loaded.partial, loaded.broken, loaded.locate, loaded.findings)
    seconds = round(time.monotonic() - started, 3)
    return Checked(tree, loaded, report((*loaded.findings, *ruled), loaded.partial, seconds, broken=loaded.broken))


def check_worktree(directory: Path) -> Checked:
    """The gate over what is being edited."""
    return check_tree(read_worktree(directory))


def load_commit(directory: Path, revision: str = "HEAD") -> Aim:
    """The aim of a commit; InvalidCluster with every finding when the gate refuses it, SourceError when unreadable."""
    return _passed(check_tree(read_tree(directory, revision)))


def load_worktree(directory: Path) -> Aim:
    """The aim of the work tree, for `plan --worktree`."""
    return _passed(check_worktree(directory))


def fleet_name(directory: Path) -> str:
    """The fleet's name, which says where its state is: from HEAD; from the work tree where HEAD does not tell."""
    try:
        name = load(read_tree(directory)).partial.fleet.name
    except SourceError:
        name = UNNAMED
    return name if name != UNNAMED else load(read_worktree(directory)).partial.fleet.name


def _passed(checked: Checked) -> Aim:
    desired = checked.loaded.desired
    errors = sum(1 for finding in checked.report.findings if finding.severity is Severity.ERROR)
    if errors or desired is None:
        what = f"commit {checked.tree.commit.sha[:7]}" if checked.tree.commit else "the work tree"
        raise InvalidCluster(f"{what} does not pass the gate: {errors} errors", checked.report.findings)
    return Aim(desired, checked.tree.commit, checked.tree.tree_id)
