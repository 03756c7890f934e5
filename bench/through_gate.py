"""The rows of `accuracy.py` as a pull request would bring them: YAML, lock and inventory, through loader and gate.

A row becomes one model with one profile, written out as files and read back; nothing is handed to the arithmetic that
a file does not say. Not run by itself: `accuracy.py --gate`.
"""  # noqa: INP001  # beside a script, not part of a package

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reconciler.domain.finding import Severity
from reconciler.gate.check import check
from reconciler.sources.loader import load
from reconciler.sources.tree import FileKind, Tree, TreeFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.domain.finding import Finding

FLEET = "name: accuracy\n"
NODES = "pool: cards\ngpus: {class: h100-80gb, count: 64}\nnodes: [node-01]\n"
"""The card the oracle pretended; one node holds every width asked for."""
COMMIT = "0" * 40
"""A revision is a commit: the gate refuses tags."""
AT_ONCE = 1000
"""Models in one tree: a file is 256 KiB at most, a tree 64 MiB."""


@dataclass(frozen=True)
class Case:
    """What one row asks."""

    name: str
    engine: str
    version: str
    gpus: int
    config: dict[str, Any]
    quant_config: dict[str, Any] | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the profile."""
    context: int = 16
    task: str = "generate"


def judged(cases: Sequence[Case]) -> Iterator[tuple[Case, list[Finding]]]:
    """Each case with its findings; a finding that belongs to none of them ends the run, for it would hide others."""
    for first in range(0, len(cases), AT_ONCE):
        some = cases[first : first + AT_ONCE]
        files = {"cluster.yaml": FLEET, "nodes/cards.yaml": NODES}
        for case in some:
            files |= written(case)
        data = {path: text.encode() for path, text in files.items()}
        tree = Tree(tuple(TreeFile(path, FileKind.FILE, data[path], len(data[path])) for path in sorted(data)), "")
        loaded = load(tree)
        by_model: defaultdict[str | None, list[Finding]] = defaultdict(list)
        for finding in (*loaded.findings, *check(loaded.partial, loaded.broken, loaded.locate, loaded.findings)):
            by_model[finding.model].append(finding)
        if None in by_model:
            raise ValueError(by_model[None][0].message)
        yield from ((case, by_model[case.name]) for case in some)


def written(case: Case) -> dict[str, str]:
    """The model's file, in JSON, which is YAML, and its lock."""
    source = f"hf:org/{case.name}@{COMMIT}"
    profile = {"name": "p", "engine": case.engine, "version": case.version, "gpu_class": "h100-80gb", "gpus": case.gpus}
    model = {"name": case.name, "source": source, "context": case.context, "task": case.task}
    locked = {"source": source, "revision": COMMIT, "format": "safetensors", "weight_bytes": 1, "config": case.config}
    if case.quant_config is not None:
        locked["quant_config"] = case.quant_config
    return {
        f"models/{case.name}.yaml": json.dumps(model | {"profiles": [profile | case.fields]}),
        f"locks/{case.name}.json": json.dumps({"sources": [locked]}),
    }


def errors(findings: list[Finding]) -> set[str]:
    """Rules that refuse, room apart: no row says what its weights are, nor that all rows fit at once."""
    return {each.rule for each in findings if each.severity is Severity.ERROR and not _of_room(each)}


def passing(findings: list[Finding]) -> tuple[int, ...] | None:
    """The counts that would pass, as the first finding that lists them has it."""
    return next((each.valid for each in findings if each.valid is not None and not _of_room(each)), None)


def _of_room(finding: Finding) -> bool:
    return finding.rule.startswith(("memory/", "inventory/overcommitted"))
