"""The agent's record and the log's tail become one sentence, for every engine and every cause: `causes.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.agent.causes import why_ended
from reconciler.agent.drivers.base import Exit
from reconciler.agent.logs import EngineLogs
from reconciler.domain.model_spec import Engine, SecretRef
from reconciler.engines.failures import LONGEST
from reconciler.engines.registry import support
from tests.agent.entries import run_entry

LOGS = Path(__file__).parents[1] / "engines" / "logs"
CAUSES = ("memory", "port", "weights", "architecture", "flag", "killed")
ROWS: list[dict[str, Any]] = YAML(typ="safe").load(Path(__file__).with_name("causes.yaml"))
HAPPEN = [row for row in ROWS if "never" not in row]


def told(directory: Path, row: dict[str, Any], tail: bytes, **env: str | SecretRef) -> str:
    entry = run_entry(engine=Engine(row["engine"]), env=dict(env) or None)
    logs = EngineLogs(directory / "logs")
    logs.rotate(entry.id)
    logs.path(entry.id).write_bytes(tail)
    ending = Exit(code=row.get("code"), signal=row.get("signal"))
    return why_ended(entry, ending, logs=logs, secrets=directory, support=support)


def tail_of(row: dict[str, Any]) -> bytes:
    return (LOGS / row["log"]).read_bytes() if "log" in row else str(row["lines"]).encode()


def test_every_cause_is_decided_for_every_engine() -> None:
    decided = [(row["engine"], row["cause"]) for row in ROWS]
    assert sorted(decided) == sorted((engine.value, cause) for engine in Engine for cause in CAUSES)


@pytest.mark.parametrize("row", HAPPEN, ids=[f"{row['engine']} {row['cause']}" for row in HAPPEN])
def test_a_cause_is_one_sentence(tmp_path: Path, row: dict[str, Any]) -> None:
    said = told(tmp_path, row, tail_of(row))
    assert said == row["told"]
    assert "\n" not in said
    assert len(said) <= LONGEST


@pytest.mark.parametrize("row", HAPPEN, ids=[f"{row['engine']} {row['cause']}" for row in HAPPEN])
@pytest.mark.parametrize("ending", [{"code": 0}, {"code": 1}, {"code": 255}, {"signal": 9}])
def test_how_it_ended_changes_nothing_where_the_log_tells(
    tmp_path: Path, row: dict[str, Any], ending: dict[str, int]
) -> None:
    if row["cause"] == "killed":
        return
    other = {key: value for key, value in row.items() if key not in {"code", "signal"}} | ending
    assert told(tmp_path, other, tail_of(row)) == row["told"]


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ({"code": 0}, "exited with code 0"),
        ({"code": 1}, "exited with code 1"),
        ({"signal": 9}, "killed by signal 9"),
        ({}, "ended while no agent was watching"),
    ],
)
def test_without_a_word_in_the_log_it_is_said_how_it_ended(
    tmp_path: Path, engine: Engine, ending: dict[str, int], said: str
) -> None:
    assert told(tmp_path, {"engine": engine.value} | ending, b"") == said
