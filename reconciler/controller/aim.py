"""What to make real: the blobs of one commit, checked by the gate. A commit that does not pass is no aim."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reconciler.controller.memory import Memory
from reconciler.domain.finding import Severity, sort_key
from reconciler.errors import InvalidCluster, SourceError
from reconciler.gate.check import Against, report
from reconciler.gate.comparison import model_changes, replaced
from reconciler.gate.inherited import marked
from reconciler.gate.ledger import ledger
from reconciler.gate.sides import Side
from reconciler.planning.limits import removal
from reconciler.planning.unblocking import LACKS_ROOM
from reconciler.sources.loader import UNNAMED, load
from reconciler.sources.repository import read_tree
from reconciler.sources.worktree import read_worktree

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.desired import Desired
    from reconciler.domain.finding import Finding, GateReport
    from reconciler.planning.limits import Removal
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


def check_tree(tree: Tree, base: Tree | None = None, memory: Memory | None = None) -> Checked:
    """Load one tree and run every rule over it; all findings at once.

    With the tree of a base the report also says what changes, and which findings the base had already. `memory` saves
    what was done for an earlier tree, and keeps what is done for this one.
    """
    started = time.monotonic()
    memory = memory or Memory()
    memory.turn()
    loaded = memory.loaded(tree)
    if base is None:
        return Checked(tree, loaded, _report(loaded, _all_findings(tree, loaded, memory), started))
    was = memory.loaded(base)
    before, after = _side(was), _side(loaded)
    must_go = replaced(before, after)
    against = Against(was.partial, must_go, _removal(was, loaded))
    found = marked(_all_findings(tree, loaded, memory, against), _all_findings(base, was, memory))
    compared = {"changes": model_changes(before, after), "ledger": ledger(before, after, must_go)}
    return Checked(tree, loaded, _report(loaded, found, started).model_copy(update=compared))


def _all_findings(tree: Tree, loaded: Loaded, memory: Memory, against: Against | None = None) -> tuple[Finding, ...]:
    """The loader's and the rules'."""
    return tuple(sorted((*loaded.findings, *memory.ruled(tree, loaded, against)), key=sort_key))


def _removal(was: Loaded, loaded: Loaded) -> Removal:
    """What is gone; a model whose file is there and broken is not."""
    found = removal(was.partial, loaded.partial)
    return replace(found, gone={name: count for name, count in found.gone.items() if name not in loaded.broken})


def _report(loaded: Loaded, findings: tuple[Finding, ...], started: float) -> GateReport:
    seconds = round(time.monotonic() - started, 3)
    return report(findings, loaded.partial, seconds, broken=loaded.broken)


def _side(loaded: Loaded) -> Side:
    refused = (each.model for each in loaded.findings if each.severity is Severity.ERROR)
    return Side(loaded.partial, loaded.broken | {model for model in refused if model is not None})


def check_worktree(directory: Path) -> Checked:
    """The gate over what is being edited."""
    return check_tree(read_worktree(directory))


def load_commit(directory: Path, revision: str = "HEAD", memory: Memory | None = None) -> Aim:
    """The aim of a commit; InvalidCluster with every finding when the gate refuses it, SourceError when unreadable."""
    return aim_of(read_tree(directory, revision), memory)


def aim_of(tree: Tree, memory: Memory | None = None) -> Aim:
    """The aim of one tree; InvalidCluster with every finding when the gate refuses it."""
    return _passed(check_tree(tree, memory=memory))


def load_to_explain(directory: Path) -> tuple[Aim, InvalidCluster | None]:
    """HEAD, and what the gate has against it where that is lack of room alone: of that planning can tell ways out.

    InvalidCluster and SourceError as `load_commit` where it is anything else.
    """
    checked = check_tree(read_tree(directory))
    try:
        return _passed(checked), None
    except InvalidCluster as refused:
        errors = {each.rule for each in refused.findings if each.severity is Severity.ERROR}
        if checked.loaded.desired is None or not errors <= LACKS_ROOM:
            raise
        return Aim(checked.loaded.desired, checked.tree.commit, checked.tree.tree_id), refused


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
