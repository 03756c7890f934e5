"""The report as one comment on a pull request: verdict, findings, GPUs by class, models that change.

The comment is found again by its hidden first line and replaced, so that a pull request has one, however often the gate
runs. Nothing in it depends on the time a run took: the same tree gives the same comment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.plan import Action
from reconciler.views.comparison import CHANGE_HEADS, LEDGER_HEADS, change_cells, ledger_cells, ordered
from reconciler.views.findings import gravest, inherited, remedy, tally
from reconciler.views.markdown_text import code, plain, row, table_head
from reconciler.views.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.finding import Finding, GateReport

MARKER = "<!-- reconciler validate -->"
"""First line of the comment, by which it is found and replaced; not shown."""

_LEDGER_MEANS = (
    "GPUs by class, for the minimum of every model; peak is the most at once while the change is rolled out."
)

LONGEST = 65_000
"""Bytes: GitHub takes 65,536 characters in a comment. Bytes are never fewer than characters."""

_LEDGER_SHARE, _CHANGES_SHARE = 10_000, 20_000
"""Bytes that the two tables may take, so that findings always have more than half. A fleet has a handful of classes,
and 20,000 are about 120 models."""


def report_markdown(report: GateReport) -> str:
    """The comment; at most LONGEST bytes, each table cut with a line that says how much is left out."""
    head = [MARKER, f"### {_verdict(report)}", ""]
    ledger = _ledger(report)
    changes = _changes(report)
    left = LONGEST - sum(_size(part) for part in (head, ledger, changes))
    return "\n".join([*head, *_findings(report, left), *ledger, *changes])


def _verdict(report: GateReport) -> str:
    told = tally(report)
    size = f"{counted(report.summary.models, 'model')}, {counted(report.summary.nodes, 'node')}"
    if not report.ok:
        return f"Refused: {told} in {size}"
    return f"Passes, with {told}: {size}" if told else f"Passes: {size}"


def _findings(report: GateReport, room: int) -> list[str]:
    findings = gravest(report.findings)
    if not findings:
        return []
    rows = [_finding(each) for each in findings]
    last = "", "What a rule means: `reconciler explain RULE`", ""
    return _cut(table_head(("severity", "rule", "where", "what")), rows, "findings", room - _size(last)) + list(
        last[1:]
    )


def _finding(finding: Finding) -> str:
    place = ":".join(str(part) for part in (finding.file, finding.line) if part is not None)
    where = code(place) if place else ""
    if finding.profile is not None and finding.model is not None:
        where += f" {code(f'{finding.model}/{finding.profile}')}"
    words = [plain(finding.message) + inherited(finding), *(plain(line) for line in remedy(finding))]
    return row([finding.severity.value, code(finding.rule), where.strip(), "; ".join(words)])


def _ledger(report: GateReport) -> list[str]:
    if not report.ledger:
        return []
    rows = [_named(ledger_cells(each)) for each in report.ledger]
    head = table_head(LEDGER_HEADS, numbers=range(1, len(LEDGER_HEADS)))
    return _cut([_LEDGER_MEANS, "", *head], rows, "GPU classes", _LEDGER_SHARE)


def _changes(report: GateReport) -> list[str]:
    if report.changes is None:
        return []
    if not report.changes:
        return ["No model changes.", ""]
    rows = [
        row([code(each.model), *(plain(cell) for cell in change_cells(each)[1:])]) for each in ordered(report.changes)
    ]
    count, restarts = len(rows), sum(each.action is Action.REPLACE for each in report.changes)
    told = f"{counted(count, 'model')} {'changes' if count == 1 else 'change'}; {restarts} must be replaced."
    return _cut([told, "", *table_head(CHANGE_HEADS, numbers=(3, 4))], rows, "models", _CHANGES_SHARE)


def _named(cells: Sequence[str]) -> str:
    """A row whose first cell is a name."""
    return row([code(cells[0]), *(plain(cell) for cell in cells[1:])])


def _cut(head: Sequence[str], rows: Sequence[str], what: str, room: int) -> list[str]:
    """A table with as many rows as there is room for, and a line on the rest; an empty line ends it."""
    last = f"… {len(rows):,} more {what}; `reconciler validate` lists all of them"
    left = room - _size([*head, "", last, ""])
    kept: list[str] = []
    for each in rows:
        left -= _size([each])
        if left < 0:
            break
        kept.append(each)
    rest = len(rows) - len(kept)
    more = [last.replace(f"{len(rows):,}", f"{rest:,}", 1), ""] if rest else []
    return [*head, *kept, "", *more]


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
