"""Findings as JUnit XML, which GitLab, Jenkins, Azure and others show as test results: one case for each file."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from reconciler.domain.finding import Severity
from reconciler.views.findings import closing, findings_lines
from reconciler.views.words import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reconciler.domain.finding import Finding, GateReport

_SUITE = "reconciler validate"
_NO_FILE = "the fleet"
"""The case of findings that no file has."""
_LONGEST_ATTRIBUTE = 1_000
"""Characters of a failure's one-line message; readers show it in a table, and the text has all of it."""


def findings_junit(report: GateReport, files: Iterable[str]) -> str:
    """One suite. A file with errors fails, once, with all of them; its warnings and notes are its output.

    One failure a case, because several readers take no more. `files` are those that were read.
    """
    by_file: dict[str, list[Finding]] = defaultdict(list)
    for each in report.findings:
        by_file[each.file or _NO_FILE].append(each)
    names = sorted({*files, *by_file})
    failed = sum(any(each.severity is Severity.ERROR for each in found) for found in by_file.values())
    counts = {
        "name": _SUITE,
        "tests": str(len(names)),
        "failures": str(failed),
        "errors": "0",
        "time": f"{report.summary.seconds:.3f}",
    }
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {**counts, "skipped": "0"})
    for name in names:
        _case(suite, name, by_file)
    # A suite without a case is an error to some readers; there is always cluster.yaml, missing or not.
    ET.SubElement(suite, "system-out").text = visible(closing(report))
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _case(suite: ET.Element, name: str, by_file: Mapping[str, Sequence[Finding]]) -> None:
    folder = name.split("/")[-2] if "/" in name else "fleet"
    shown = visible(name)
    case = ET.SubElement(suite, "testcase", {"classname": f"reconciler.{visible(folder)}", "name": shown, "time": "0"})
    if "/" in name:
        case.set("file", shown)
    found = by_file.get(name, ())
    refused = [each for each in found if each.severity is Severity.ERROR]
    told = [each for each in found if each.severity is not Severity.ERROR]
    if refused:
        more = f" ({len(refused) - 1} more)" if len(refused) > 1 else ""
        message = visible(f"{refused[0].rule}: {refused[0].message}")[:_LONGEST_ATTRIBUTE] + more
        failure = ET.SubElement(case, "failure", {"message": message, "type": refused[0].rule})
        failure.text = "\n".join(findings_lines(refused))
    if told:
        ET.SubElement(case, "system-out").text = "\n".join(findings_lines(told))
