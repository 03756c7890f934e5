"""The table of advisories: every row can be checked by its source, and versions compare as their projects count."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reconciler.domain.advisories import Gravity, advisories, release, without
from reconciler.domain.exposures import exposing_flags, exposing_variables, risky_variable
from reconciler.domain.finding import Severity
from reconciler.domain.flag_tables import flag_table, known_versions
from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.tables import table
from tests.gate.vocabulary import banned_words

ROWS: list[dict[str, Any]] = table("advisories")["advisories"]
RISKS = [
    *(
        (f"{engine} {row.get('flag') or row['name']}", row["why"])
        for engine, rows in table("exposures")["exposed"].items()
        for row in (*rows["flags"], *rows["env"])
    ),
    *((row["names"][0], row["why"]) for row in table("exposures")["env"]),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
class TestRow:
    def test_it_names_an_advisory_and_the_page_it_was_read_from(self, row: dict[str, Any]) -> None:
        assert re.fullmatch(r"CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}", row["id"])
        assert re.fullmatch(r"GHSA(-[0-9a-z]{4}){3}", row.get("also", "GHSA-aaaa-aaaa-aaaa"))
        assert re.fullmatch(r"https://(github\.com|osv\.dev)/\S+", row["source"])
        assert any(name.rpartition("-")[2] in row["source"] for name in (row["id"], row.get("also", "-"))) or (
            "PYSEC" in row["source"] or "/issues/" in row["source"]
        )

    def test_it_says_in_one_clause_what_happens(self, row: dict[str, Any]) -> None:
        assert re.fullmatch(r"[a-zA-Z][^\n]{15,95}[^.\n]", row["says"])
        assert not banned_words(row["says"])
        assert row.get("severity", "high") in set(Gravity)

    def test_it_ends_somewhere_or_matters_only_where_something_else_is_so(self, row: dict[str, Any]) -> None:
        engine = Engine(row["engine"])
        bounds = [release(engine, row[key]) for key in ("introduced", "fixed", "last") if key in row]
        assert None not in bounds
        assert bounds == sorted(each for each in bounds if each is not None)
        assert "fixed" in row or "last" in row or "only" in row
        assert "fixed" not in row or "last" not in row

    def test_its_condition_is_one_that_can_be_looked_up(self, row: dict[str, Any]) -> None:
        only = row.get("only", {})
        assert set(only) <= {"flag", "env", "config", "nodes", "task"}
        assert only.get("task", Task.IMAGE) in set(Task)
        flags = {flag.name for version in known_versions(Engine(row["engine"])) for flag in tabled(row, version)}
        assert only.get("flag") in {None, *flags}


def tabled(row: dict[str, Any], version: str) -> tuple[Any, ...]:
    return flag_table(Engine(row["engine"]), version).flags


def test_no_advisory_is_there_twice() -> None:
    names = [name for row in ROWS for name in (row["id"], row.get("also")) if name is not None]
    assert len(names) == len(set(names)) > 100


@pytest.mark.parametrize(
    ("engine", "ascending"),
    [
        (Engine.VLLM, "0.8.5 0.8.5.post1 0.9.0.dev1 0.9.0a1 0.9.0rc1 0.9.0rc2 0.9 0.9.1 0.10.1 0.10.1.1 0.10.2 0.32.0"),
        (Engine.TRTLLM, "0.18.2 1.2.0rc3 1.2 1.3.0rc14 1.4"),
        (Engine.LLAMACPP, "b3561 8492 2026.10.11549 b12658"),
    ],
)
def test_versions_compare_as_their_projects_count(engine: Engine, ascending: str) -> None:
    releases = [release(engine, version) for version in ascending.split()]
    assert None not in releases
    assert releases == sorted(releases, key=lambda each: each or ((), 0, 0))
    assert len(set(releases)) == len(releases)


@pytest.mark.parametrize(("one", "other"), [("1.2", "1.2.0"), ("v0.32.0", "0.32"), ("0.32.0+cu129", "0.32.0")])
def test_spellings_of_one_version_are_one(one: str, other: str) -> None:
    assert release(Engine.VLLM, one) == release(Engine.VLLM, other)


def test_a_version_without_a_number_is_not_judged() -> None:
    assert release(Engine.VLLM, "latest") is None
    assert advisories(Engine.VLLM, "latest") == ()


def test_the_bounds_of_a_row_are_those_of_its_versions() -> None:
    def has(version: str) -> bool:
        return "CVE-2026-22807" in {each.id for each in advisories(Engine.VLLM, version)}

    assert [has(each) for each in ("0.10.0", "0.10.1", "0.13.0", "0.14.0rc1", "0.14.0", "0.33.0")] == [
        *(False, True, True),
        *(True, False, False),
    ]


def test_what_is_advised_has_none_that_always_matters() -> None:
    for engine in Engine:
        for row in ROWS:
            found = advisories(engine, row.get("fixed", "0.1")) if row["engine"] == engine else ()
            advised = without(found)
            assert advised is None or all(each.only for each in advisories(engine, advised))


def test_the_gravest_comes_first() -> None:
    order = [list(Gravity).index(each.gravity) for each in advisories(Engine.VLLM, "0.8.3")]
    assert order == sorted(order)
    assert order[0] == 0


@pytest.mark.parametrize("engine", [each for each in Engine if known_versions(each)])
def test_every_flag_that_exposes_is_one_that_a_tabled_version_has(engine: Engine) -> None:
    known = {flag.name for version in known_versions(engine) for flag in flag_table(engine, version).flags}
    assert set(exposing_flags(engine)) - known == set()


@pytest.mark.parametrize("why", [why for _, why in RISKS], ids=[name for name, _ in RISKS])
def test_a_risk_ends_a_sentence_that_begins_with_the_flag(why: str) -> None:
    assert re.fullmatch(r"[a-z][^\n]{15,100}[^.\n]", why)
    assert not banned_words(why)


def test_variables_are_told_by_name_and_by_prefix() -> None:
    preload, own = risky_variable("LD_PRELOAD"), risky_variable("RECONCILER_ANYTHING")
    assert preload is not None
    assert own is not None
    assert (preload.severity, own.severity) == (Severity.ERROR, Severity.ERROR)
    assert risky_variable("HF_HOME") is None
    assert "VLLM_SERVER_DEV_MODE" in exposing_variables(Engine.VLLM)
