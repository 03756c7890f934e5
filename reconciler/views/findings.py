"""Findings of the gate as a compiler would say them, and as JSON."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.views.words import counted, json_text, shown, spans, visible, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reconciler.domain.finding import Finding, GateReport

_TAB = 4
"""Columns between tab stops in what is shown; YAML allows tabs only inside texts and comments."""
_LONGEST = 100
"""Characters of a source line that are shown: with the gutter it fits a terminal of 120 columns."""
_BEFORE = 60
"""Of them, at most this many before the caret."""
_CUT = "…"


def findings_json(report: GateReport) -> str:
    """The report as `validate --format json` prints it."""
    return json_text(report.model_dump(mode="json", by_alias=True))


def findings_text(report: GateReport, texts: Mapping[str, str]) -> str:
    """Every finding with its place and the lines around it, then one line that sums up; ends with a newline.

    Findings at one place are told together. `texts` are the files by name; a file that is not among them is shown
    without its lines.
    """
    blocks = ["\n".join(block) + "\n" for block in _blocks(report.findings, texts)]
    return "\n".join([*blocks, _closing(report)])


def findings_lines(findings: Iterable[Finding]) -> list[str]:
    """Every finding with its place and without the lines around it, for where the files are not at hand."""
    return [line for block in _blocks(findings, {}) for line in block]


def _blocks(findings: Iterable[Finding], texts: Mapping[str, str]) -> Iterator[list[str]]:
    for place, group in groupby(findings, key=_place):
        together = tuple(group)
        # What has no place has nothing in common.
        parts = [together] if place[0] is not None else [(each,) for each in together]
        yield from (_block(part, texts) for part in parts)


def _place(finding: Finding) -> tuple[str | None, int | None, int | None]:
    return (finding.file, finding.line, finding.column)


def _block(findings: Sequence[Finding], texts: Mapping[str, str]) -> list[str]:
    first = findings[0]
    lines = [f"{each.severity} {each.rule}: {visible(each.message)}" for each in findings]
    if first.file is not None:
        lines.append("  " + ":".join(visible(str(part)) for part in _place(first) if part is not None))
        lines.extend(_source(texts.get(first.file, ""), first.line, first.column))
    counts = (each.valid for each in findings if each.valid is not None)
    lines.extend(_once(f"   would pass here: {spans(valid) or 'no count'}" for valid in counts))
    lines.extend(_once(f"   fix: {visible(each.hint)}" for each in findings if each.hint is not None))
    return lines


def _once(lines: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(lines)


def _source(text: str, line: int | None, column: int | None) -> Iterator[str]:
    """The line and the one before it, with their numbers and a caret under the column."""
    lines = re.split(r"\r\n|\r|\n", text)
    if line is None or not 1 <= line <= len(lines) or not text:
        return
    gutter = max(len(str(line)), 3)
    if line > 1 and lines[line - 2].strip():
        yield f"  {line - 1:>{gutter}} | {_cut(lines[line - 2], 1)[0]}".rstrip()
    source, caret = _cut(lines[line - 1], column or 1)
    yield f"  {line:>{gutter}} | {source}".rstrip()
    if column is not None:
        yield f"  {'':>{gutter}} | {' ' * caret}^"


def _cut(line: str, column: int) -> tuple[str, int]:
    """A source line made visible and cut around a column (from 1), and the caret's offset in it."""
    at = min(max(column - 1, 0), len(line))
    start = 0 if len(line) <= _LONGEST else max(min(at - _BEFORE, len(line) - _LONGEST), 0)
    before = (_CUT if start else "") + _expand(line[start:at])
    after = _expand(line[at : start + _LONGEST], width(before)) + (_CUT if start + _LONGEST < len(line) else "")
    return before + after, width(before)


def _expand(text: str, offset: int = 0) -> str:
    """Tabs as spaces to the next stop, other characters that mislead as escapes."""
    text_shown = ""
    for character in text:
        if character == "\t":
            text_shown += " " * (_TAB - (offset + width(text_shown)) % _TAB)
        else:
            text_shown += shown(character)
    return text_shown


def _closing(report: GateReport) -> str:
    summary = report.summary
    told = [
        counted(count, word)
        for count, word in ((summary.errors, "error"), (summary.warnings, "warning"), (summary.notes, "note"))
        if count
    ]
    size = f"{counted(summary.models, 'model')}, {counted(summary.nodes, 'node')} ({summary.seconds:.1f} s)"
    if not told:
        return f"ok: {size}\n"
    verdict = f"{', '.join(told)} in {size}" if summary.errors else f"ok, with {', '.join(told)}: {size}"
    worst = min(report.findings, key=lambda each: list(Severity).index(each.severity))
    return f"{verdict}. More: reconciler explain {worst.rule}\n"
