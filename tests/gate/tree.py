"""A cluster directory written down in a test, loaded and judged as a commit would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.controller.aim import check_tree
from reconciler.gate.check import check, report
from reconciler.sources.loader import load
from reconciler.sources.tree import FileKind, Tree, TreeFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.finding import GateReport


def judged(files: Mapping[str, str], base: Mapping[str, str] | None = None) -> GateReport:
    """What the gate says of these files, by path in the cluster directory; against a base where there is one."""
    if base is not None:
        return check_tree(tree(files), tree(base)).report
    loaded = load(tree(files))
    found = check(loaded.partial, loaded.broken, loaded.locate, loaded.findings)
    return report((*loaded.findings, *found), loaded.partial, 0.0, broken=loaded.broken)


def tree(files: Mapping[str, str]) -> Tree:
    """A tree that holds these files and nothing else."""
    data = {path: text.encode() for path, text in files.items()}
    entries = (TreeFile(path, FileKind.FILE, data[path], len(data[path])) for path in sorted(data))
    return Tree(tuple(entries), prefix="")
