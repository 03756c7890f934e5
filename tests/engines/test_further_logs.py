"""Logs of engines that do not run here: SGLang, TensorRT-LLM, ComfyUI.

Whole starts are in `logs/not_run/`, made up of the lines that the sources print (SGLang 0.5.23) or that public reports
show (TensorRT-LLM 0.20 to 1.2, ComfyUI 0.3), with figures of our own; what ends are told by is in `failure_lines.yaml`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from reconciler.domain.model_spec import Engine
from reconciler.engines.progress import Progress, Stage
from reconciler.engines.registry import support

HERE = Path(__file__).parent
LOGS = HERE / "logs" / "not_run"

STARTS = {
    Engine.SGLANG: [
        Progress(Stage.STARTING),
        Progress(Stage.LOADING),
        Progress(Stage.LOADING, 0, 3, "shards"),
        Progress(Stage.LOADING, 1, 3, "shards"),
        Progress(Stage.LOADING, 3, 3, "shards"),
        Progress(Stage.ALLOCATING),
        Progress(Stage.CAPTURING),
        Progress(Stage.CAPTURING, 0, 36, "graphs"),
        Progress(Stage.CAPTURING, 36, 36, "graphs"),
        Progress(Stage.WARMING),
        Progress(Stage.LOADED),
    ],
    Engine.TRTLLM: [
        Progress(Stage.STARTING),
        Progress(Stage.LOADING),
        Progress(Stage.LOADING, 1, 2, "parts"),
        Progress(Stage.LOADING, 2, 2, "parts"),
        Progress(Stage.ALLOCATING),
        Progress(Stage.COMPILING),
        Progress(Stage.CAPTURING),
        Progress(Stage.ALLOCATING),
        Progress(Stage.LOADED),
    ],
    Engine.COMFYUI: [Progress(Stage.STARTING), Progress(Stage.WARMING), Progress(Stage.LOADED)],
}
"""The steps that differ from the one before."""

FAILURES = [
    (Engine(row["engine"]), row["lines"], row["reason"]) for row in YAML(typ="safe").load(HERE / "failure_lines.yaml")
]


def log(kind: Engine) -> str:
    return (LOGS / f"{kind}-good.txt").read_text("utf-8")


@pytest.mark.parametrize("kind", STARTS)
def test_a_good_start_is_told_by_steps_and_has_no_reason(kind: Engine) -> None:
    engine = support(kind)
    assert engine is not None
    told = [step for line in log(kind).splitlines() if (step := engine.read_progress(line))]
    assert [step for index, step in enumerate(told) if index == 0 or step != told[index - 1]] == STARTS[kind]
    assert engine.read_failure(log(kind)) is None


@pytest.mark.parametrize(("kind", "lines", "reason"), FAILURES)
def test_the_reason_of_an_end_is_one_sentence(kind: Engine, lines: str, reason: str | None) -> None:
    engine = support(kind)
    assert engine is not None
    assert engine.read_failure(lines) == reason
    assert engine.read_failure(f"{log(kind)}{lines}\n") == reason


@pytest.mark.parametrize("kind", STARTS)
def test_of_two_starts_in_one_log_the_last_one_counts(kind: Engine) -> None:
    engine = support(kind)
    assert engine is not None
    assert engine.read_failure(f"torch.OutOfMemoryError: CUDA out of memory\n{log(kind)}") is None


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("reconciler: waiting for 10.0.0.1 on 10.0.0.2 port 20001", Progress(Stage.MEETING)),
        ("reconciler: runs orted for the first node", Progress(Stage.STARTING)),
        (
            "reconciler: the part on 10.0.0.2 port 20001 does not wait yet (Connection refused)",
            Progress(Stage.MEETING),
        ),
        ("reconciler: refused a connection from 10.0.0.9: only 10.0.0.1 leads this replica", None),
        ("reconciler: the part on 10.0.0.2 port 20001 cannot join: it hung up", None),
    ],
)
def test_a_part_that_waits_for_another_node_is_told_as_a_step(line: str, step: Progress | None) -> None:
    engine = support(Engine.TRTLLM)
    assert engine is not None
    assert engine.read_progress(line) == step


def test_a_reason_is_short_enough_to_be_read() -> None:
    engine = support(Engine.SGLANG)
    assert engine is not None
    reason = engine.read_failure(f"ValueError: {'lorem ipsum ' * 100}")
    assert reason is not None
    assert len(reason) == 300
    assert reason.endswith("…")
