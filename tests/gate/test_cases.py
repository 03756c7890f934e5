"""Cases as files: a small cluster directory and every finding it must yield, for both sides of each rule.

`groups` names the rules a case is about; findings of other groups do not concern it. `at` is file:line:column,
`message` and `hint` are fragments (`hint: null`: there is none), `valid` is exact, and null where it is not written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.domain.finding import Finding
from reconciler.gate.check import RULES
from tests.gate.tree import judged
from tests.gate.vocabulary import banned_words

CASES = Path(__file__).parent / "cases"


def cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        shared = YAML(typ="safe").load(path.read_text("utf-8"))
        for case in shared["cases"]:
            merged = {**shared["files"], **case["files"]}
            files = {name: text for name, text in merged.items() if text is not None}
            groups = tuple(case.get("groups", shared["groups"]))
            found.append(pytest.param(groups, files, case["findings"], id=f"{path.stem}: {case['about']}"))
    return found


@pytest.mark.parametrize(("groups", "files", "expected"), cases())
def test_case(groups: tuple[str, ...], files: dict[str, str], expected: list[dict[str, Any]]) -> None:
    seen = [each for each in judged(files).findings if each.rule.startswith(tuple(f"{group}/" for group in groups))]

    assert [summary(each) for each in seen] == [asked(each) for each in expected]
    for finding, wanted in zip(seen, expected, strict=True):
        assert wanted.get("message", "") in finding.message
        if "hint" in wanted:
            assert finding.hint is None if wanted["hint"] is None else wanted["hint"] in (finding.hint or "")
        assert finding.model == wanted.get(
            "model", Path(str(finding.file)).stem if "models/" in str(finding.file) else None
        )
        assert finding.profile == wanted.get("profile", finding.profile)
        assert not banned_words(f"{finding.message} {finding.hint or ''}")


def summary(finding: Finding) -> tuple[str, str, str, list[int] | None]:
    place = f"{finding.file}:{finding.line}:{finding.column}"
    return (finding.rule, finding.severity.value, place, None if finding.valid is None else list(finding.valid))


def asked(wanted: dict[str, Any]) -> tuple[str, str, str, list[int] | None]:
    severity = wanted.get("severity", RULES[wanted["rule"]].severity.value)
    return (wanted["rule"], severity, wanted["at"], wanted.get("valid"))


def test_every_rule_with_a_check_has_both_sides() -> None:
    rules = {slug for slug, rule in RULES.items() if rule.check is not None}
    refused = {finding["rule"] for case in cases() for finding in case.values[2]}
    quiet = {group for case in cases() if not case.values[2] for group in case.values[0]}

    assert rules <= refused
    assert {slug.partition("/")[0] for slug in rules} <= quiet
    assert len(cases()) >= 30
