"""Cases as files: a small cluster directory and every finding it must yield, for both sides of each rule.

`groups` names the rules a case is about, a whole group or one rule; findings of others do not concern it. `at` is
file:line:column, `message` and `hint` are fragments (`hint: null`: there is none), `valid` is exact, and null where it
is not written.
`passes` names rules that the case shows the other side of: they have something to judge and refuse nothing.
A file in locks/ may be written as the name of a shape (see `tests/gate/locks.py`). `base` changes files, as the case
does, for a tree to compare with; null is a file that it does not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.domain.finding import Finding
from reconciler.gate.check import RULES
from tests.gate.locks import lock_text
from tests.gate.tree import judged
from tests.gate.vocabulary import banned_words

CASES = Path(__file__).parent / "cases"


def cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        shared = YAML(typ="safe").load(path.read_text("utf-8"))
        for case in shared["cases"]:
            files = merged(shared["files"], case["files"])
            base = texts(merged(shared["files"], case["files"], case["base"])) if "base" in case else None
            groups = tuple(case.get("groups", shared["groups"]))
            passes = tuple(case.get("passes", ()))
            named = f"{path.stem}: {case['about']}"
            found.append(pytest.param(groups, texts(files), passes, case["findings"], base, id=named))
    return found


def merged(*files: dict[str, Any]) -> dict[str, Any]:
    """Files of which the later win; null takes one away."""
    together = {name: text for each in files for name, text in each.items()}
    return {name: text for name, text in together.items() if text is not None}


def texts(files: dict[str, Any]) -> dict[str, str]:
    """The files as text, locks written out."""
    models = {Path(name).stem: text for name, text in files.items() if name.startswith("models/")}
    return {
        name: text if isinstance(text, str) else lock_text(text, models[Path(name).stem])
        for name, text in files.items()
    }


@pytest.mark.parametrize(("groups", "files", "passes", "expected", "base"), cases())
def test_case(
    groups: tuple[str, ...],
    files: dict[str, str],
    passes: tuple[str, ...],
    expected: list[dict[str, Any]],
    base: dict[str, str] | None,
) -> None:
    about = tuple(group if "/" in group else f"{group}/" for group in groups)
    seen = [each for each in judged(files, base).findings if each.rule.startswith(about)]

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
    assert not {finding.rule for finding in seen} & set(passes)
    assert all(rule.startswith(groups) for rule in passes)


def summary(finding: Finding) -> tuple[str, str, str, list[int] | None]:
    place = f"{finding.file}:{finding.line}:{finding.column}"
    return (finding.rule, finding.severity.value, place, None if finding.valid is None else list(finding.valid))


def asked(wanted: dict[str, Any]) -> tuple[str, str, str, list[int] | None]:
    severity = wanted.get("severity", RULES[wanted["rule"]].severity.value)
    return (wanted["rule"], severity, wanted["at"], wanted.get("valid"))


def test_every_rule_with_a_check_has_both_sides() -> None:
    rules = {slug for slug, rule in RULES.items() if rule.check is not None}

    assert rules - {finding["rule"] for case in cases() for finding in case.values[3]} == set()
    assert rules - {rule for case in cases() for rule in case.values[2]} == set()
