"""Findings of the gate as a compiler would say them, and as JSON."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.views.comparison import comparison_text
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
_FIX = "fix: "
_SPLITS = re.compile(r"(?:^|; )(?P<why>\d+ splits, but [^;]+)$")
"""How the gate ends a hint about a GPU count (`gate.valid`): it belongs to the counts, being no thing to do."""


def findings_json(report: GateReport) -> str:
    """The report as `validate --format json` prints it."""
    return json_text(report.model_dump(mode="json", by_alias=True))


def findings_text(report: GateReport, texts: Mapping[str, str]) -> str:
    """Every finding with its place and the lines around it, then one line that sums up; ends with a newline.

    Findings at one place are told together. `texts` are the files by name; a file that is not among them is shown
    without its lines. With a base, what changes stands between the findings and the sum.
    """
    blocks = ["\n".join(block) + "\n" for block in _blocks(report.findings, texts)]
    compared = comparison_text(report)
    return "\n".join([*blocks, *([compared] if compared else []), f"{closing(report)}\n"])


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
    lines = [f"{each.severity} {each.rule}: {visible(each.message)}{inherited(each)}" for each in findings]
    if first.file is not None:
        lines.append("  " + ":".join(visible(str(part)) for part in _place(first) if part is not None))
        lines.extend(_source(texts.get(first.file, ""), first.line, first.column))
    told = list(_once(line for each in findings for line in remedy(each)))
    # The same counts are told once, with the reason beside them where one of the findings has it.
    counts = [line for line in told if not line.startswith(_FIX)]
    counts = [line for line in counts if not any(each != line and each.startswith(f"{line} ") for each in counts)]
    return [*lines, *(f"   {line}" for line in [*counts, *(line for line in told if line.startswith(_FIX))])]


def inherited(finding: Finding) -> str:
    """What is added to the words of a finding that this change did not cause."""
    return " (was there before)" if finding.caused is False else ""


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


def closing(report: GateReport) -> str:
    """One line: the verdict, how much was read and how long it took, and where to read on."""
    summary = report.summary
    told = tally(report)
    size = f"{counted(summary.models, 'model')}, {counted(summary.nodes, 'node')} ({summary.seconds:.1f} s)"
    if not told:
        return f"ok: {size}"
    verdict = f"{told} in {size}" if summary.errors else f"ok, with {told}: {size}"
    return f"{verdict}. More: reconciler explain {gravest(report.findings)[0].rule}"


def tally(report: GateReport) -> str:
    """`2 errors (1 was there before), 1 warning`; empty where there is no finding."""
    summary = report.summary
    counts = {Severity.ERROR: summary.errors, Severity.WARNING: summary.warnings, Severity.NOTE: summary.notes}
    before = Counter(each.severity for each in report.findings if each.caused is False)
    told = ((each, count) for each, count in counts.items() if count)
    return ", ".join(f"{counted(count, each.value)}{_of_base(before[each], count)}" for each, count in told)


def _of_base(before: int, count: int) -> str:
    if not before:
        return ""
    if before == count:
        return " (was there before)" if count == 1 else " (all were there before)"
    return f" ({before} {'was' if before == 1 else 'were'} there before)"


def gravest(findings: Iterable[Finding]) -> list[Finding]:
    """Errors, warnings, notes; of each what this change caused first; else in their order."""
    order = list(Severity)
    return sorted(findings, key=lambda each: (order.index(each.severity), each.caused is False))


def remedy(finding: Finding) -> list[str]:
    """What would pass and what to do, a line each; beside the counts what keeps a smaller one from being among them."""
    found = _SPLITS.search(finding.hint or "") if finding.valid is not None else None
    hint = finding.hint if found is None or finding.hint is None else finding.hint[: found.start()]
    aside = f"   ({visible(found['why'])})" if found else ""
    lines = [] if finding.valid is None else [f"would pass here: {spans(finding.valid) or 'no count'}{aside}"]
    if hint is None or (found and not hint):
        return lines
    return [*lines, f"{_FIX}{visible(hint)}"]
