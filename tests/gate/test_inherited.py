"""Which findings a change did not cause."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.domain.finding import Finding, Severity
from reconciler.gate.inherited import marked


def a_finding(message: str = "it does not split", **fields: Any) -> Finding:
    placed = {"file": "cluster/models/a.yaml", "line": 5, "column": 9, "model": "a", "profile": "p", **fields}
    return Finding(**{"rule": "heads/kv-split", "severity": Severity.ERROR, "message": message, **placed})


def caused(now: list[Finding], before: list[Finding]) -> list[bool | None]:
    return [each.caused for each in marked(now, before)]


def test_what_the_base_had_was_not_caused_wherever_its_line_is_now() -> None:
    assert caused([a_finding(line=9, column=1, hint="other", valid=(4,))], [a_finding()]) == [False]


@pytest.mark.parametrize(
    "change",
    [
        {"rule": "heads/mlp-split"},
        {"severity": Severity.WARNING},
        {"file": "cluster/models/b.yaml"},
        {"model": "b"},
        {"profile": "q"},
        {"message": "9 GPUs short"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_differs_was_caused(change: dict[str, Any]) -> None:
    assert caused([a_finding(**change)], [a_finding()]) == [True]


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ("declared twice; first in cluster/models/b.yaml:12", "declared twice; first in cluster/models/b.yaml:3"),
        ("gpus is written twice; first on line 12", "gpus is written twice; first on line 9"),
    ],
)
def test_lines_that_messages_quote_do_not_count(now: str, before: str) -> None:
    assert caused([a_finding(now)], [a_finding(before)]) == [False]


def test_one_more_of_the_same_was_caused() -> None:
    assert caused([a_finding(line=1), a_finding(line=2), a_finding(line=3)], [a_finding(), a_finding()]) == [
        False,
        False,
        True,
    ]


def test_the_rest_of_a_finding_stays() -> None:
    (told,) = marked([a_finding(valid=(4, 8))], [])

    assert told == a_finding(valid=(4, 8), caused=True)
