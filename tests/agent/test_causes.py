"""The agent's record and the log's tail become one sentence, for every engine and every cause: `causes.yaml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.agent.causes import why_ended
from reconciler.agent.config import AgentConfig
from reconciler.agent.drivers.base import Exit
from reconciler.agent.logs import EngineLogs
from reconciler.domain.assignment import RunEntry
from reconciler.domain.model_spec import Engine, SecretRef
from reconciler.domain.placement import PlacedGpu, Shard
from reconciler.engines.failures import LONGEST
from reconciler.engines.registry import support
from tests.agent.entries import NODE, run_entry

LOGS = Path(__file__).parents[1] / "engines" / "logs"
CAUSES = ("memory", "port", "weights", "architecture", "flag", "killed", "crashed")
ROWS: list[dict[str, Any]] = YAML(typ="safe").load(Path(__file__).with_name("causes.yaml"))
HAPPEN = [row for row in ROWS if "never" not in row]
IDS = [f"{at} {row['engine']} {row['cause']}" for at, row in enumerate(HAPPEN)]
KILLED = "was killed (SIGKILL), by the kernel for want of RAM or by somebody"
LINES = [
    (row.get("engine", "vllm"), row["lines"], row["reason"])
    for name in ("failure_lines", "vllm_reasons")
    for row in YAML(typ="safe").load((LOGS.parent / name).with_suffix(".yaml"))
]
"""What the modules' own tests read, without an agent."""

WITHOUT_WORDS = {"killed", "crashed"}


def told(directory: Path, row: dict[str, Any], tail: bytes, **env: str | SecretRef) -> str:
    entry = placed(row, dict(env))
    config = AgentConfig(
        node=row.get("on", NODE), listen="http://127.0.0.1:1", state_dir=directory, memory_gib=8, cpu_cores=8
    )
    logs = EngineLogs(directory / "logs")
    logs.rotate(entry.id)
    logs.path(entry.id).write_bytes(tail)
    ending = Exit(code=row.get("code"), signal=row.get("signal"))
    return why_ended(entry, ending, config=config, logs=logs, support=support)


def placed(row: dict[str, Any], env: dict[str, str | SecretRef]) -> RunEntry:
    """An entry with the row's cards, by node, and what else its declaration says."""
    entry = run_entry(engine=Engine(row["engine"]), env=env or None)
    if "cards" not in row:
        return entry
    shards = tuple(
        Shard(node=node, gpus=tuple(PlacedGpu(uuid=uuid(index), index=index) for index in indexes))
        for node, indexes in row["cards"].items()
    )
    several = {"gpus": len(shards[0].gpus), "nodes": len(shards), "gpu_class": "l4"}
    declaration = entry.declaration.model_copy(update=several | row.get("declares", {}))
    placement = entry.placement.model_copy(update={"shards": shards})
    addresses = tuple(f"10.0.0.{at}" for at in range(1, len(shards) + 1))
    return entry.model_copy(update={"placement": placement, "declaration": declaration, "addresses": addresses})


def uuid(index: int) -> str:
    """As the driver writes one; the first digits tell the card."""
    return f"GPU-{index}a2b3c4d-506f-5593-938d-a136eaa1fa52"


def tail_of(row: dict[str, Any]) -> bytes:
    return (LOGS / row["log"]).read_bytes() if "log" in row else str(row["lines"]).encode()


def test_every_cause_is_decided_for_every_engine() -> None:
    decided = [(row["engine"], row["cause"]) for row in ROWS]
    assert set(decided) == {(engine.value, cause) for engine in Engine for cause in CAUSES}


@pytest.mark.parametrize("row", HAPPEN, ids=IDS)
def test_a_cause_is_one_sentence(tmp_path: Path, row: dict[str, Any]) -> None:
    said = told(tmp_path, row, tail_of(row))
    assert said == row["told"]
    assert "\n" not in said
    assert len(said) <= LONGEST


@pytest.mark.parametrize("row", HAPPEN, ids=IDS)
@pytest.mark.parametrize("ending", [{"code": 0}, {"code": 1}, {"code": 255}, {"signal": 9}])
def test_how_it_ended_changes_nothing_where_the_log_tells(
    tmp_path: Path, row: dict[str, Any], ending: dict[str, int]
) -> None:
    if row["cause"] in WITHOUT_WORDS:
        return
    other = {key: value for key, value in row.items() if key not in {"code", "signal"}} | ending
    assert told(tmp_path, other, tail_of(row)) == row["told"]


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ({"code": 0}, "exited with code 0"),
        ({"code": 1}, "exited with code 1"),
        ({"code": 137}, f"exited with code 137, as programs do of which a process {KILLED}"),
        ({"code": 139}, "exited with code 139, as programs do of which a process crashed (SIGSEGV)"),
        ({"code": 255}, "exited with code 255"),
        (
            {"signal": 9},
            "killed from outside (SIGKILL), by the kernel for want of RAM or by somebody; not by this agent",
        ),
        ({"signal": 15}, "was told to end (SIGTERM) from outside, not by this agent"),
        ({"signal": 1}, "was told to end (SIGHUP) from outside, not by this agent"),
        ({"signal": 11}, "it crashed (SIGSEGV)"),
        ({"signal": 6}, "it crashed (SIGABRT), at a check of its own"),
        ({"signal": 7}, "it crashed (SIGBUS): /dev/shm is full, or a file that it had mapped was cut short"),
        ({"signal": 4}, "it crashed (SIGILL): its program is built for another kind of CPU"),
        ({"signal": 10}, "was ended by SIGUSR1 from outside, not by this agent"),
        ({"signal": 40}, "was ended by signal 40 from outside, not by this agent"),
        ({}, "ended while no agent was watching"),
    ],
)
def test_without_a_word_in_the_log_it_is_said_how_it_ended(
    tmp_path: Path, engine: Engine, ending: dict[str, int], said: str
) -> None:
    assert told(tmp_path, {"engine": engine.value} | ending, b"") == said


@pytest.mark.parametrize(("engine", "lines", "reason"), LINES)
def test_lines_mean_the_same_as_the_agent_reads_them(
    tmp_path: Path, engine: str, lines: str, reason: str | None
) -> None:
    """One by one in plain words: without the spaces before them, for one."""
    assert told(tmp_path, {"engine": engine, "code": 1}, lines.encode()) == (reason or "exited with code 1")


def test_the_reason_of_the_launch_before_is_none_of_this_one(tmp_path: Path) -> None:
    row = {"engine": "trtllm", "signal": 9}
    assert told(tmp_path, row, b"RuntimeError: lorem ipsum") == "it ended with RuntimeError: lorem ipsum"
    assert told(tmp_path, row, b"").startswith("killed from outside (SIGKILL)")


def test_a_secret_that_an_engine_wrote_is_not_told(tmp_path: Path) -> None:
    secrets = tmp_path / "agent" / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "key").write_text("hunter2hunter2\n", encoding="utf-8")
    said = told(
        tmp_path, {"engine": "sglang", "code": 1}, b"ValueError: bad hunter2hunter2", KEY=SecretRef(secret="key")
    )
    assert said.startswith("it ended with ValueError: bad ")
    assert "hunter2" not in said


KEY = "sk-0123456789abcdef0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("secret", "line", "shown"),
    [
        ("hunter2-is-my-key.", "bad key hunter2-is-my-key.", "bad key [secret key]"),
        ("hunter2-is-my-key:", "bad key hunter2-is-my-key:", "bad key [secret key]"),
        (KEY, f"{'x' * 245} api_key={KEY} tail", "api_key=[secret key] tail"),
        (KEY, f"{'x' * 960}{KEY}", "x…"),
        ("correct  horse  battery", "bad key correct  horse  battery", "bad key [secret key]"),
        ("correct  horse  battery", "bad key correct horse battery", "bad key [secret key]"),
        ("correct\u00adhorse\u200bbattery", "bad key correct\u00adhorse\u200bbattery", "bad key [secret key]"),
        ("correct\u00adhorse\u200bbattery", "bad key correcthorsebattery", "bad key [secret key]"),
        ("first-of-key\nsecond-of-key", "bad first-of-key\nsecond-of-key", "bad [secret key]"),
        ("p@ss/word+9", "https://u:p%40ss%2Fword%2B9@h", "https://u:[secret key]@h"),
        ("first-of-key\nfirst-of-key-2", "bad first-of-key-2", "bad [secret key]"),
    ],
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_no_part_of_a_secret_is_told_however_it_is_written(
    tmp_path: Path, engine: str, secret: str, line: str, shown: str
) -> None:
    secrets = tmp_path / "agent" / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "key").write_text(secret, encoding="utf-8")
    said = told(
        tmp_path, {"engine": engine, "code": 1}, f"ValueError: {line}".encode(), SOME_KEY=SecretRef(secret="key")
    )
    assert said.startswith("it ended with ValueError: ")
    assert said.endswith(shown)
    assert not re.search("hunter2|sk-|0123|correct|battery|of-key|word", said)


def test_of_a_long_line_both_ends_are_read(tmp_path: Path) -> None:
    line = f"ERROR {'x' * 50_000} torch.OutOfMemoryError: CUDA out of memory"
    assert told(tmp_path, {"engine": "vllm", "code": 1}, line.encode()) == "a GPU has too little free memory"
