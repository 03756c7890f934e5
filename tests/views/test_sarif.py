"""What code scanning keeps of a finding over the life of a repository."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.views.sarif import findings_sarif
from tests.views.reports import FILE, MODEL, a_finding, a_report

if TYPE_CHECKING:
    from reconciler.domain.finding import Finding


def run(*findings: Finding, text: str = MODEL) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(findings_sarif(a_report(*findings), {FILE: text}, version="1.2.3"))["runs"][0]
    return found


def prints(*findings: Finding, text: str = MODEL) -> list[str]:
    results = run(*findings, text=text)["results"]
    return [each["partialFingerprints"]["reconciler/v1"] for each in results]


def test_an_alert_survives_lines_above_it_and_other_words() -> None:
    moved = a_finding(message="worded otherwise", line=10)

    assert prints(a_finding()) == prints(moved, text=f"# a comment\n{MODEL}")
    assert prints(a_finding()) == prints(a_finding(), text=MODEL.replace("    gpus: 6", "      gpus: 6"))


@pytest.mark.parametrize(
    "other",
    [{"rule": "heads/vocab-split"}, {"file": "cluster/models/b.yaml"}, {"model": "b"}, {"profile": "p"}, {"line": 3}],
    ids=lambda fields: next(iter(fields)),
)
def test_another_finding_is_another_alert(other: dict[str, Any]) -> None:
    assert prints(a_finding()) != prints(a_finding(**other))


def test_another_value_is_another_alert() -> None:
    assert prints(a_finding()) != prints(a_finding(), text=MODEL.replace("gpus: 6", "gpus: 5"))


def test_findings_that_are_alike_are_told_apart_by_their_order() -> None:
    two = prints(a_finding("args/unknown-flag", "--a", column=12), a_finding("args/unknown-flag", "--b", column=17))

    assert len(set(two)) == 2
    assert prints(a_finding("args/unknown-flag", "--a", column=12)) == two[:1]


def test_a_result_says_where_what_and_what_to_do() -> None:
    (result,) = run(a_finding(valid=(4, 8), hint="gpus: 8", profile="h100"))["results"]

    assert result["level"] == "error"
    assert result["message"]["text"] == "8 KV heads do not split over 6\nwould pass here: 4, 8\nfix: gpus: 8"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": FILE, "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 9, "startColumn": 11}
    assert result["properties"] == {"model": "llama-70b", "profile": "h100", "valid": [4, 8]}
    assert "baselineState" not in result


@pytest.mark.parametrize(("caused", "state"), [(True, "new"), (False, "unchanged")])
def test_with_a_base_it_says_what_is_new(caused: bool, state: str) -> None:
    assert run(a_finding(caused=caused))["results"][0]["baselineState"] == state


def test_a_finding_without_a_file_has_a_place_all_the_same() -> None:
    place = run(a_finding(file=None, line=None, column=None))["results"][0]["locations"][0]["physicalLocation"]

    assert place == {"artifactLocation": {"uri": "cluster/cluster.yaml", "uriBaseId": "%SRCROOT%"}}


def test_a_file_is_named_as_an_address() -> None:
    (result,) = run(a_finding(file="cluster/models/a b%ü.yaml"))["results"]

    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "cluster/models/a%20b%25%C3%BC.yaml"


def test_rules_explain_themselves() -> None:
    (rule,) = run(a_finding())["tool"]["driver"]["rules"]

    assert rule["id"] == "heads/kv-split"
    assert rule["name"] == "HeadsKvSplit"
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert rule["shortDescription"]["text"] in rule["help"]["text"]
    assert len(rule["help"]["text"]) > 200
