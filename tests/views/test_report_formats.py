"""What every format promises of every report: it parses, it says everything, nothing in it misleads or breaks out."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

from reconciler.views.findings import findings_json, findings_text
from reconciler.views.github import findings_github
from reconciler.views.junit import findings_junit
from reconciler.views.markdown import LONGEST, MARKER, report_markdown
from reconciler.views.sarif import findings_sarif
from reconciler.views.schemas import schema
from reconciler.views.words import visible
from tests.conftest import compare
from tests.views import reports
from tests.views.reports import FILE, MODEL, a_finding, a_report, a_story

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markdown_it.token import Token

    from reconciler.domain.finding import GateReport

HERE = Path(__file__).parent
SARIF = Draft202012Validator(json.loads((HERE / "sarif.subset.json").read_text()))
MISLEADING = {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}
FORMATS = ("text", "json", "github", "sarif", "junit", "markdown")


def worded(report: GateReport, texts: Mapping[str, str], form: str) -> str:
    match form:
        case "text":
            return findings_text(report, texts)
        case "json":
            return findings_json(report)
        case "github":
            return findings_github(report)
        case "sarif":
            return findings_sarif(report, texts, version="1.2.3")
        case "junit":
            return findings_junit(report, texts)
        case _:
            return report_markdown(report)


@pytest.mark.parametrize("form", FORMATS)
@given(report=reports.reports(), texts=reports.files)
def test_no_format_holds_a_character_that_misleads(form: str, report: GateReport, texts: dict[str, str]) -> None:
    text = worded(report, texts, form)

    assert {unicodedata.category(each) for each in text.replace("\n", "")}.isdisjoint(MISLEADING)
    assert text.encode()


@given(reports.reports())
def test_json_is_what_its_schema_says(report: GateReport) -> None:
    Draft202012Validator(schema("validate")).validate(json.loads(findings_json(report)))


@given(reports.reports(), reports.files)
def test_sarif_is_what_its_standard_says_and_holds_every_finding(report: GateReport, texts: dict[str, str]) -> None:
    run = json.loads(findings_sarif(report, texts, version="1.2.3"))["runs"][0]
    SARIF.validate({"version": "2.1.0", "$schema": "x", "runs": [run]})
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]

    assert sorted(each["ruleId"] for each in run["results"]) == sorted(each.rule for each in report.findings)
    assert all(rules[each["ruleIndex"]] == each["ruleId"] for each in run["results"])
    prints = [each["partialFingerprints"]["reconciler/v1"] for each in run["results"]]
    assert len(set(prints)) == len(prints), "two alerts of one fingerprint are one alert"


@given(reports.reports(), reports.files)
def test_junit_is_xml_with_one_case_a_file_and_every_error_in_a_failure(
    report: GateReport, texts: dict[str, str]
) -> None:
    suite = ET.fromstring(findings_junit(report, texts)).find("testsuite")  # our own text
    assert suite is not None
    cases = suite.findall("testcase")

    assert len(cases) == int(suite.attrib["tests"]) == len({*texts, *(each.file or "" for each in report.findings)})
    assert all(len(case.findall("failure")) <= 1 for case in cases)
    assert sum(case.find("failure") is not None for case in cases) == int(suite.attrib["failures"])
    for each in report.findings:
        tag = "failure" if each.severity == "error" else "system-out"
        line = f"{each.severity} {each.rule}: {visible(each.message)}"
        assert any(line in (found.text or "") for found in suite.iterfind(f"testcase/{tag}"))


COMMAND = re.compile(r"::(error|warning|notice) ((?:[a-z]+=[^,:\r\n]*,?)*)::(.*)")


@given(reports.reports())
def test_github_gets_annotations_and_no_command_of_anybody_else(report: GateReport) -> None:
    lines = findings_github(report).splitlines()
    commands = [line for line in lines if line.lstrip().startswith("::")]

    assert [line for line in commands if not COMMAND.fullmatch(line)] == []
    assert "##[" not in "".join(lines)
    assert len(commands) == len(report.findings), "there are few enough that each is shown"


@pytest.fixture(scope="module")
def markdown() -> MarkdownIt:
    """As forges read it: tables and struck text, and HTML where it is written."""
    return MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])


def flat(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from flat(token.children or [])


FORMATTING = {"link_open", "image", "em_open", "strong_open", "s_open", "html_inline", "html_block", "hardbreak"}
CALLS = re.compile(r"(?<!\w)@[\w/]|\w@[\w-]+\.\w|#\d|https?://|www\.")


@given(report=reports.reports())
def test_nothing_in_the_comment_formats_links_or_calls(markdown: MarkdownIt, report: GateReport) -> None:
    text = report_markdown(report)
    tokens = list(flat(markdown.parse(text)))

    assert text.startswith(f"{MARKER}\n### ")
    assert [token.content for token in tokens if token.type in FORMATTING] == [f"{MARKER}\n"]
    # What is code is never made a link of.
    assert [token.content for token in tokens if token.type == "text" and CALLS.search(token.content)] == []


@given(report=reports.reports())
def test_every_row_of_the_comment_has_as_many_cells_as_its_head(markdown: MarkdownIt, report: GateReport) -> None:
    tokens = markdown.parse(report_markdown(report))
    rows = [token.type for token in tokens if token.type in {"tr_open", "td_open", "th_open"}]
    cells = "".join({"tr_open": "\n", "td_open": "d", "th_open": "h"}[kind] for kind in rows).split("\n")

    assert set(cells) <= {"", "hhhh", "dddd", "hhhhhh", "dddddd", "hhhhhhh", "ddddddd"}
    assert cells.count("dddd") == len(report.findings)
    assert cells.count("dddddd") == len(report.ledger or ())
    assert cells.count("ddddddd") == len(report.changes or ())


@given(report=reports.reports())
def test_the_comment_shows_the_words_as_they_are(markdown: MarkdownIt, report: GateReport) -> None:
    seen = "".join(token.content for token in flat(markdown.parse(report_markdown(report))) if not token.children)

    for each in report.findings:
        assert "".join(visible(each.message).split()) in "".join(seen.split())


@pytest.mark.parametrize("form", ["text", "github", "junit", "markdown"])
def test_example(form: str, *, rewrite: bool) -> None:
    texts = {FILE: MODEL, "cluster/models/wide.yaml": "name: wide\n"}
    compare(HERE / "reports" / f"example.{form}", worded(a_story(), texts, form), rewrite=rewrite)


LONG = "x" * 400


@pytest.fixture(scope="module")
def huge() -> GateReport:
    """More of everything than any forge takes, the errors last."""
    severities = ["note", "warning", "error"]
    found = [a_finding(message=f"{number} {LONG}", severity=severities[number // 2_100]) for number in range(6_300)]
    story = a_story()
    changes = [each.model_copy(update={"model": f"m{at}"}) for at in range(300) for each in story.changes or ()]
    ledger = [each.model_copy(update={"gpu_class": f"{LONG}{at}"}) for at in range(99) for each in story.ledger or ()]
    return a_report(*found, changes=tuple(changes), ledger=tuple(ledger))


def test_a_huge_report_stays_within_the_limits_of_a_comment(huge: GateReport) -> None:
    text = report_markdown(huge)

    assert LONGEST * 0.9 < len(text.encode()) <= LONGEST < 65_536
    assert re.findall(r"… [\d,]+ more (.*);", text) == ["findings", "GPU classes", "models"]
    shown = text.count("| error | `heads/kv-split`")
    assert f"… {6_300 - shown:,} more findings" in text
    assert "| note |" not in text, "the gravest are shown"


def test_a_huge_report_stays_within_the_limits_of_annotations(huge: GateReport) -> None:
    lines = findings_github(huge).splitlines()
    kinds: list[Any] = [line.split()[0] for line in lines if line.startswith("::")]

    assert {kind: kinds.count(kind) for kind in kinds} == {"::error": 10, "::warning": 10, "::notice": 10}
    assert lines[-1].startswith("::notice ")
    assert "2090 more errors, 2090 more warnings, 2091 more notes" in lines[-1]
    assert sum(LONG in line for line in lines) == 6_300, "the log has all of them"


def test_a_huge_report_stays_within_the_limits_of_code_scanning(huge: GateReport) -> None:
    text = findings_sarif(huge, {FILE: MODEL}, version="1")
    run = json.loads(text)["runs"][0]

    assert len(run["results"]) == 5_000
    assert all(len(each["locations"]) == 1 for each in run["results"])
    assert {each["level"] for each in run["results"][:2_100]} == {"error"}
    told = run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert told.startswith("1300 more findings")
    assert len(text.encode()) < 10_000_000
