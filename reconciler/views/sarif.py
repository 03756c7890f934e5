"""Findings as SARIF 2.1.0, which GitHub's code scanning and others keep as alerts over the life of a repository."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from reconciler.domain.finding import Severity
from reconciler.gate.check import RULES
from reconciler.views.findings import gravest, inherited, remedy
from reconciler.views.words import counted, json_text, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.domain.finding import Finding, GateReport

SHOWN = 5_000
"""Results: GitHub takes 25,000 of a run and shows the 5,000 gravest, so more would only be a larger file."""
_LONGEST = 1_000
"""Characters of one text: 5,000 results then stay within 10 MB, which GitHub takes of a compressed file."""

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT = "reconciler/v1"
_ELSEWHERE = "cluster/cluster.yaml"
"""Where a finding without a file is shown: code scanning takes no result without a place."""


def findings_sarif(report: GateReport, texts: Mapping[str, str], *, version: str) -> str:
    """One run of the tool. `texts` are the files by name, for fingerprints; `version` is the tool's."""
    findings = gravest(report.findings)
    shown = findings[:SHOWN]
    slugs = sorted({each.rule for each in shown})
    prints = _fingerprints(shown, texts)
    driver = {
        "name": "reconciler",
        "semanticVersion": version,
        "rules": [_rule(slug) for slug in slugs],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "reconciler-validate/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _left_out(len(findings) - SHOWN)}],
        "results": [_result(each, slugs.index(each.rule), mark) for each, mark in zip(shown, prints, strict=True)],
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(slug: str) -> dict[str, Any]:
    group, _, name = slug.partition("/")
    rule = RULES.get(slug)
    described: dict[str, Any] = {
        "id": slug,
        "name": "".join(word.capitalize() for word in re.split(r"\W+", f"{group} {name}")),
        "properties": {"tags": ["llm-serving", group]},
    }
    if rule is None:
        return described
    return described | {
        "shortDescription": {"text": rule.why[:_LONGEST]},
        "fullDescription": {"text": rule.why[:_LONGEST]},
        "help": {"text": f"{rule.why}\n\n{rule.explanation}"},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _result(finding: Finding, index: int, fingerprint: str) -> dict[str, Any]:
    words = [visible(finding.message) + inherited(finding), *remedy(finding)]
    physical: dict[str, Any] = {"artifactLocation": _artifact(finding)}
    if finding.line is not None:
        region = {"startLine": finding.line} | ({"startColumn": finding.column} if finding.column else {})
        physical["region"] = region
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _level(finding.severity),
        "message": {"text": "\n".join(words)[:_LONGEST]},
        "locations": [{"physicalLocation": physical}],
        "partialFingerprints": {_FINGERPRINT: fingerprint},
    }
    if finding.caused is not None:
        result["baselineState"] = "new" if finding.caused else "unchanged"
    known = {"model": finding.model, "profile": finding.profile, "valid": finding.valid}
    told = {name: value for name, value in known.items() if value is not None}
    return result | ({"properties": told} if told else {})


def _level(severity: Severity) -> str:
    match severity:
        case Severity.ERROR:
            return "error"
        case Severity.WARNING:
            return "warning"
        case Severity.NOTE:
            return "note"


def _artifact(finding: Finding) -> dict[str, str]:
    return {"uri": quote(visible(finding.file or _ELSEWHERE)), "uriBaseId": "%SRCROOT%"}


def _left_out(count: int) -> Sequence[dict[str, Any]]:
    if count <= 0:
        return []
    text = f"{counted(count, 'more finding')}, none graver than these; `reconciler validate` lists all of them"
    return [{"level": "warning", "message": {"text": text}}]


def _fingerprints(findings: Sequence[Finding], texts: Mapping[str, str]) -> list[str]:
    """One for each: the same as long as rule, file, model, profile and the text of the line stay, wherever the line is.

    The words of a message do not count where there is a line, so a new version of the tool opens no alert again.
    Findings that are alike in all of it are told apart by their order in the file.
    """
    lines_by_file = {file: re.split(r"\r\n|\r|\n", text) for file, text in texts.items()}
    seen: Counter[str] = Counter()
    by_place = sorted(range(len(findings)), key=lambda at: (findings[at].line or 0, findings[at].column or 0))
    prints = [""] * len(findings)
    for at in by_place:
        each = findings[at]
        lines = lines_by_file.get(each.file or "", [])
        line = lines[each.line - 1].strip() if each.line is not None and each.line <= len(lines) else ""
        alike = json.dumps([each.rule, each.file, each.model, each.profile, line or each.message])
        prints[at] = hashlib.sha256(f"{alike}{seen[alike]}".encode()).hexdigest()[:32]
        seen[alike] += 1
    return prints
