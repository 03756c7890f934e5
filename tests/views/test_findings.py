"""Findings as people read them and as programs do."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reconciler.domain.finding import Finding, GateReport, Severity, Summary
from reconciler.views.findings import findings_json, findings_lines, findings_text
from reconciler.views.schemas import schema
from reconciler.views.words import json_text, spans, visible, width

MODEL = """\
name: llama-70b
profiles:
  - name: h100
    gpu_class: h100-80gb
    gpus: 6
"""
FILE = "cluster/models/llama-70b.yaml"


def a_finding(
    rule: str = "heads/kv-split", message: str = "8 KV heads do not spread over 6 GPUs", **fields: Any
) -> Finding:
    placed = {"severity": Severity.ERROR, "file": FILE, "line": 5, "column": 11, "model": "llama-70b", **fields}
    return Finding(rule=rule, message=message, **placed)


def a_report(*findings: Finding, seconds: float = 0.4) -> GateReport:
    count = {severity: sum(each.severity is severity for each in findings) for severity in Severity}
    summary = Summary(
        errors=count[Severity.ERROR],
        warnings=count[Severity.WARNING],
        notes=count[Severity.NOTE],
        models=14,
        nodes=61,
        seconds=seconds,
    )
    return GateReport(ok=not count[Severity.ERROR], findings=findings, summary=summary)


def test_a_finding_reads_like_a_compiler() -> None:
    finding = a_finding(valid=(4, 8), hint="gpus: 8", profile="h100")

    assert (
        findings_text(a_report(finding), {FILE: MODEL})
        == """\
error heads/kv-split: 8 KV heads do not spread over 6 GPUs
  cluster/models/llama-70b.yaml:5:11
    4 |     gpu_class: h100-80gb
    5 |     gpus: 6
      |           ^
   would pass here: 4, 8
   fix: gpus: 8

1 error in 14 models, 61 nodes (0.4 s). More: reconciler explain heads/kv-split
"""
    )


def test_findings_at_one_place_are_told_together() -> None:
    one = a_finding(valid=(4, 8))
    other = a_finding("heads/vocab-split", "the vocabulary does not split", severity=Severity.WARNING, valid=(4, 8))

    assert (
        findings_text(a_report(one, other), {FILE: MODEL})
        == """\
error heads/kv-split: 8 KV heads do not spread over 6 GPUs
warning heads/vocab-split: the vocabulary does not split
  cluster/models/llama-70b.yaml:5:11
    4 |     gpu_class: h100-80gb
    5 |     gpus: 6
      |           ^
   would pass here: 4, 8

1 error, 1 warning in 14 models, 61 nodes (0.4 s). More: reconciler explain heads/kv-split
"""
    )


@pytest.mark.parametrize(
    ("findings", "closing"),
    [
        ((), "ok: 14 models, 61 nodes (0.4 s)"),
        ((Severity.WARNING,), "ok, with 1 warning: 14 models, 61 nodes (0.4 s). More: reconciler explain a/a"),
        ((Severity.NOTE, Severity.NOTE), "ok, with 2 notes: 14 models, 61 nodes (0.4 s). More: reconciler explain a/a"),
        (
            (Severity.NOTE, Severity.ERROR),
            "1 error, 1 note in 14 models, 61 nodes (0.4 s). More: reconciler explain a/b",
        ),
    ],
    ids=["nothing", "warning", "notes", "error"],
)
def test_the_last_line_sums_up_and_leads_on_to_the_worst(findings: tuple[Severity, ...], closing: str) -> None:
    told = [a_finding(f"a/{name}", severity=severity) for name, severity in zip("abc", findings, strict=False)]

    assert findings_text(a_report(*told), {}).splitlines()[-1] == closing


@pytest.mark.parametrize(
    ("caused", "told"),
    [
        ((True, True), "2 errors"),
        ((False, True), "2 errors (1 was there before)"),
        ((False, False), "2 errors (all were there before)"),
        ((False,), "1 error (was there before)"),
    ],
    ids=["none", "one of two", "both", "the only one"],
)
def test_what_the_base_had_is_said_and_counted(caused: tuple[bool, ...], told: str) -> None:
    text = findings_text(a_report(*(a_finding(line=None, column=None, caused=each) for each in caused)), {})

    assert text.splitlines()[-1].startswith(f"{told} in 14 models")
    assert text.count("GPUs (was there before)\n") == caused.count(False)


def test_one_model_is_not_one_models() -> None:
    report = a_report()
    alone = report.model_copy(update={"summary": report.summary.model_copy(update={"models": 1, "nodes": 1})})

    assert findings_text(alone, {}) == "ok: 1 model, 1 node (0.4 s)\n"


@pytest.mark.parametrize(
    ("hint", "fix"),
    [
        ("2 splits, but needs 76.9 of 72.8 GiB a GPU", []),
        ("expert_parallel: false; 2 splits, but needs 76.9 of 72.8 GiB a GPU", ["   fix: expert_parallel: false"]),
    ],
)
def test_why_a_smaller_count_would_not_pass_stands_beside_those_that_would(hint: str, fix: list[str]) -> None:
    lines = findings_lines(
        [a_finding(valid=(4, 8), hint=hint), a_finding("heads/vocab-split", valid=(4, 8), hint=hint)]
    )

    assert lines[3:] == ["   would pass here: 4, 8   (2 splits, but needs 76.9 of 72.8 GiB a GPU)", *fix]


def test_no_count_that_passes_is_said() -> None:
    assert "   would pass here: no count\n" in findings_text(a_report(a_finding(valid=())), {FILE: MODEL})


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), ""),
        ((1, 2), "1, 2"),
        ((1, 2, 3), "1, 2, 3"),
        ((1, 2, 3, 4), "1 to 4"),
        ((1, 3, 4, 5, 6, 9), "1, 3 to 6, 9"),
    ],
)
def test_many_counts_are_told_as_spans(numbers: tuple[int, ...], text: str) -> None:
    assert spans(numbers) == text


def test_a_file_that_is_not_at_hand_has_no_lines() -> None:
    assert findings_lines([a_finding(hint="gpus: 8")]) == [
        "error heads/kv-split: 8 KV heads do not spread over 6 GPUs",
        "  cluster/models/llama-70b.yaml:5:11",
        "   fix: gpus: 8",
    ]


def test_a_finding_about_a_whole_file_has_no_caret() -> None:
    finding = a_finding("yaml/empty", "the file is empty", line=None, column=None)

    assert findings_text(a_report(finding), {FILE: MODEL}).splitlines()[:2] == [
        "error yaml/empty: the file is empty",
        "  cluster/models/llama-70b.yaml",
    ]


def test_findings_without_a_place_are_not_one_place() -> None:
    one, other = a_finding(file=None, hint="do this"), a_finding(message="and", file=None, hint="do that")

    assert findings_lines([one, other]) == [
        "error heads/kv-split: 8 KV heads do not spread over 6 GPUs",
        "   fix: do this",
        "error heads/kv-split: and",
        "   fix: do that",
    ]


def shown(line: str, column: int) -> tuple[str, str]:
    """The source line and the caret's line as they are printed, without their gutter."""
    text = findings_text(a_report(a_finding(line=1, column=column)), {FILE: line})
    source, caret = (each[8:] for each in text.splitlines()[2:4])
    return source, caret


@pytest.mark.parametrize(
    ("line", "column", "source", "caret"),
    [
        ("gpus: 6", 7, "gpus: 6", "      ^"),
        ("a:\t6", 4, "a:  6", "    ^"),
        ("\t\t6", 3, "        6", "        ^"),
        ("ab: 'ü' # 6", 11, "ab: 'ü' # 6", "          ^"),
        ("模型: 6", 5, "模型: 6", "      ^"),
        ("e\u0301: 6", 5, "e\u0301: 6", "   ^"),
        ("a: \x1b[31m6", 9, "a: \\x1b[31m6", "           ^"),
        ("a: \u202e6", 5, "a: \\u202e6", "         ^"),
        ("gpus:", 99, "gpus:", "     ^"),
        ("a:\u00a06", 4, "a:\\xa06", "      ^"),
    ],
    ids=["plain", "tab", "tabs", "accent", "wide", "combining", "escape", "bidi", "past the end", "hard space"],
)
def test_the_caret_stands_under_the_place(line: str, column: int, source: str, caret: str) -> None:
    assert shown(line, column) == (source, caret)


def test_a_very_long_line_is_cut_around_the_place() -> None:
    line = "x" * 5_000 + "HERE" + "y" * 5_000
    source, caret = shown(line, 5_001)

    assert source[caret.index("^") :].startswith("HERE")
    assert (source[0], source[-1]) == ("…", "…")
    assert len(source) <= 102


@pytest.mark.parametrize("column", [1, 2, 60, 199, 200])
def test_a_cut_line_keeps_its_place_at_either_end(column: int) -> None:
    line = "".join(chr(0x4E00 + number) for number in range(200))
    source, caret = shown(line, column)

    assert source.startswith("…") == (column > 60)
    assert width(source[: source.index(line[column - 1])]) == caret.index("^")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_yaml_counts_them(ending: str) -> None:
    text = findings_text(a_report(a_finding()), {FILE: MODEL.replace("\n", ending)})

    assert "    4 |     gpu_class: h100-80gb\n    5 |     gpus: 6\n" in text


texts = st.text(alphabet=st.characters(codec=None), max_size=60)
some_findings = st.builds(
    Finding,
    rule=st.sampled_from(["heads/kv-split", "refs/x", "yaml/type"]),
    severity=st.sampled_from(Severity),
    message=texts,
    hint=st.none() | texts,
    file=st.none() | st.sampled_from(["a.yaml", "b\x1b.yaml", "c\u202e.yaml"]),
    line=st.none() | st.integers(min_value=1, max_value=9),
    column=st.none() | st.integers(min_value=1, max_value=200),
    model=st.none() | texts,
    profile=st.none() | texts,
    valid=st.none() | st.lists(st.integers(min_value=1, max_value=64), unique=True).map(sorted).map(tuple),
)


@given(st.lists(some_findings, max_size=5), st.dictionaries(st.sampled_from(["a.yaml", "b\x1b.yaml"]), texts))
def test_no_text_moves_the_cursor_hides_or_reorders(findings: list[Finding], files: dict[str, str]) -> None:
    text = findings_text(a_report(*findings), files)

    assert {unicodedata.category(each) for each in text.replace("\n", "")}.isdisjoint(
        {"Cc", "Cf", "Cs", "Zl", "Zp", "Co"}
    )
    assert text.encode()


@given(st.lists(some_findings, max_size=5))
def test_every_finding_is_in_the_text(findings: list[Finding]) -> None:
    lines = findings_text(a_report(*findings), {}).splitlines()

    for each in findings:
        assert f"{each.severity} {each.rule}: {visible(each.message)}" in lines
        if each.hint is not None:
            assert f"   fix: {visible(each.hint)}" in lines


@given(st.lists(some_findings, max_size=5))
def test_every_finding_is_in_the_json_with_every_key(findings: list[Finding]) -> None:
    report = a_report(*findings)
    text = findings_json(report)
    parsed = json.loads(text)

    assert set(parsed) == {"format_version", "ok", "findings", "summary", "ledger", "changes"}
    assert set(parsed["summary"]) == {"errors", "warnings", "notes", "models", "nodes", "seconds"}
    keys = {"rule", "severity", "message", "hint", "file", "line", "column", "model", "profile", "valid", "caused"}
    assert all(set(each) == keys for each in parsed["findings"])
    assert [Finding.model_validate(each) for each in parsed["findings"]] == findings
    assert all(each.isprintable() for each in text.replace("\n", ""))


def test_the_json_is_what_its_schema_says() -> None:
    report = a_report(a_finding(valid=(4, 8)), a_finding(file=None, line=None, column=None, model=None))
    text = findings_json(report)

    Draft202012Validator(schema("validate")).validate(json.loads(text))
    assert text.startswith(
        '{\n  "format_version": "1.0",\n  "ok": false,\n  "findings": [\n    {\n      "rule": "heads/kv-split"'
    )
    assert text.endswith("}\n")


@given(st.recursive(st.none() | texts | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_json_reads_back(value: object) -> None:
    assert json.loads(json_text(value)) == value
