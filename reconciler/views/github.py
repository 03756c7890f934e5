"""Findings as GitHub's workflow commands: annotations beside the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.views.findings import closing, findings_lines, gravest, inherited, remedy
from reconciler.views.words import counted, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.finding import Finding, GateReport

SHOWN_OF_EACH = 10
"""Annotations of one kind that GitHub shows for a step; it drops the rest silently (and 50 a job, which ten of each
kind stay below)."""

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY_ESCAPES = {**_ESCAPES, ":": "%3A", ",": "%2C"}


def findings_github(report: GateReport) -> str:
    """Annotations, the gravest first; then in plain lines what GitHub would not show, and the sum.

    What people wrote cannot become a command: no line but ours begins with `::`, and `##[` of the older form is broken.
    """
    shown: list[Finding] = []
    rest: list[Finding] = []
    counts = dict.fromkeys(Severity, 0)
    for each in gravest(report.findings):
        counts[each.severity] += 1
        # One notice is kept for the last line, which says what is left out.
        most = SHOWN_OF_EACH - (each.severity is Severity.NOTE)
        (shown if counts[each.severity] <= most else rest).append(each)
    lines = [_annotation(each) for each in shown]
    lines += [_harmless(line) for line in findings_lines(rest)]
    lines.append(_harmless(closing(report)))
    lines += _left_out(rest)
    return "".join(f"{line}\n" for line in lines)


def _annotation(finding: Finding) -> str:
    place = [("file", finding.file), ("line", finding.line), ("col", finding.column)]
    told = [(name, str(value)) for name, value in (*place, ("title", finding.rule)) if value is not None]
    properties = ",".join(f"{name}={_escape(visible(value), _PROPERTY_ESCAPES)}" for name, value in told)
    text = "\n".join([visible(finding.message) + inherited(finding), *remedy(finding)])
    return _harmless(f"::{_COMMANDS[finding.severity]} {properties}::{_escape(text, _ESCAPES)}")


def _escape(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(each, each) for each in text)


def _harmless(line: str) -> str:
    return line.replace("##[", "## [")


def _left_out(rest: list[Finding]) -> Iterator[str]:
    if not rest:
        return
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
    told = [
        counted(count, f"more {word}")
        for severity, word in words.items()
        if (count := sum(each.severity is severity for each in rest))
    ]
    yield f"::notice title=reconciler validate::{', '.join(told)} in the log of this step and in its summary"
