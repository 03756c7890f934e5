"""The gate's answer to a tree, remembered: the same files, the same tool, the same answer."""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from reconciler.controller.stamp import tool_stamp
from reconciler.domain.finding import GateReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.controller.aim import Checked
    from reconciler.controller.cache import Cache
    from reconciler.controller.memory import Memory
    from reconciler.sources.tree import Tree

_LINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Answer:
    """A report with what views show beside it."""

    report: GateReport
    texts: Mapping[str, str]
    """By file: the lines that findings point at and those before them, masked; every other line is empty."""
    files: tuple[str, ...]
    """What was read, as people name it, sorted; locks are not among them."""


def answer(tree: Tree, base: Tree | None, cache: Cache | None, place: str) -> Answer:
    """What the gate says of a tree, against a base where there is one; from the cache where it was asked before.

    `place` is where the tree lies on this machine: what is remembered of single files is kept for each place.
    """
    started = time.monotonic()
    if cache is None:
        return _timed(_asked(tree, base, None), started)
    stamp = tool_stamp()
    name = f"answer-{_key(stamp, tree, base)}"
    known = _read(cache.read(name))
    if known is None:
        known = _remembering(tree, base, cache, f"memory-{hashlib.sha256(f'{stamp} {place}'.encode()).hexdigest()}")
        cache.write(name, _written(known))
    return _timed(known, started)


def _remembering(tree: Tree, base: Tree | None, cache: Cache, name: str) -> Answer:
    """Ask the gate with what is remembered of single files, and remember what it found."""
    from reconciler.controller.memory import read_memory  # noqa: PLC0415  # as below

    memory = read_memory(cache.read(name))
    found = _asked(tree, base, memory)
    cache.write(name, memory.written())
    return found


def _asked(tree: Tree, base: Tree | None, memory: Memory | None) -> Answer:
    from reconciler.controller.aim import check_tree  # noqa: PLC0415  # the rules load only where they are asked

    return _of(check_tree(tree, base, memory))


def _timed(found: Answer, started: float) -> Answer:
    """With the time that this run took."""
    seconds = round(time.monotonic() - started, 3)
    summary = found.report.summary.model_copy(update={"seconds": seconds})
    return Answer(found.report.model_copy(update={"summary": summary}), found.texts, found.files)


def _key(stamp: str, tree: Tree, base: Tree | None) -> str:
    """Of everything that the answer depends on."""
    digest = hashlib.sha256(stamp.encode())
    for each in (tree, base):
        digest.update(b"\0tree" if each is not None else b"\0none")
        if each is not None:
            digest.update(each.prefix.encode("utf-8", "surrogateescape"))
            for file in each.files:
                told = f"\0{file.path}\0{file.kind}\0{file.size}\0".encode("utf-8", "surrogateescape")
                digest.update(told + hashlib.sha256(file.data).digest())
    return digest.hexdigest()


def _of(checked: Checked) -> Answer:
    texts = checked.loaded.texts
    return Answer(checked.report, _excerpts(checked.report, texts), tuple(sorted(texts)))


def _excerpts(report: GateReport, texts: Mapping[str, str]) -> dict[str, str]:
    """What of the files is shown beside findings."""
    wanted: dict[str, set[int]] = {}
    for each in report.findings:
        if each.file is not None and each.file in texts and each.line is not None:
            wanted.setdefault(each.file, set()).update((each.line - 2, each.line - 1))
    return {
        file: "\n".join(line if at in kept else "" for at, line in enumerate(_LINE.split(texts[file])))
        for file, kept in wanted.items()
    }


def _written(found: Answer) -> bytes:
    shown = {"report": found.report.model_dump(mode="json"), "texts": found.texts, "files": found.files}
    return json.dumps(shown).encode()


def _read(content: bytes | None) -> Answer | None:
    """An entry; None where it is of another form, as after a change that kept every file's size and time."""
    if content is None:
        return None
    try:
        shown = json.loads(content)
        return Answer(GateReport.model_validate(shown["report"]), dict(shown["texts"]), tuple(shown["files"]))
    except (ValueError, KeyError, TypeError, ValidationError):
        return None
