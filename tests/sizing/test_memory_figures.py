"""What engines printed when they started, against what we would have said: figures of `bench/data/memory.json`.

The limits are those the project set itself before anything was fitted. Rows that nothing can tell which sees only
model, card and arguments carry their reason in `left_out`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from bench.memory_scores import Asked, Errors, answers
from reconciler.domain.model_spec import Engine
from reconciler.engines.counting import counting_rules
from reconciler.sizing.sized import FitVerdict

FILE = Path(__file__).resolve().parents[2] / "bench" / "data" / "memory.json"


@cache
def rows() -> tuple[Asked, ...]:
    return tuple(each for each in answers(json.loads(FILE.read_text("utf-8"))) if each.row["left_out"] is None)


def started() -> list[Asked]:
    """With card and share stated, of versions that were read."""
    return [
        each
        for each in rows()
        if each.row["outcome"] == "ok"
        and each.row["gpu"]
        and "share" in each.row["ask"]
        and (each.row["version"] is None or counting_rules(Engine(each.row["engine"]), each.row["version"]).known)
    ]


def by_outcome(outcome: str) -> list[Asked]:
    return [each for each in rows() if each.row["outcome"] == outcome and each.row["gpu"]]


def test_there_are_enough_rows_to_say_anything() -> None:
    assert len(rows()) > 90
    assert sum(each.weights_error is not None for each in rows()) > 60
    assert sum(each.budget_gib is not None for each in started()) > 55


def test_weights_of_16_bit_models() -> None:
    errors = Errors.of([each for each in rows() if not each.row["quantized"]], lambda each: each.weights_error)

    assert errors.median <= 0.003
    assert errors.nine_in_ten <= 0.015
    assert all(abs(error) < (0.07 if each.shape.towers else 0.05) for error, each in errors.found)


def test_weights_of_quantized_models() -> None:
    errors = Errors.of([each for each in rows() if each.row["quantized"]], lambda each: each.weights_error)

    assert errors.nine_in_ten <= 0.05


def test_tokens_from_the_printed_cache() -> None:
    errors = Errors.of(rows(), lambda each: each.tokens_error)

    assert errors.nine_in_ten <= 0.001
    assert errors.worst <= 0.015


def test_tokens_of_the_whole_budget_in_the_sweep() -> None:
    errors = Errors.of([each for each in started() if each.row["sweep"]], lambda each: each.budget_tokens_error)

    assert errors.median <= 0.015
    assert errors.nine_in_ten <= 0.1


def test_half_of_the_sweep_that_nothing_was_fitted_to_is_no_worse() -> None:
    rest = [each for each in started() if each.row["sweep"] and not each.fitted]
    errors = Errors.of(rest, lambda each: each.budget_tokens_error)

    assert len(errors.found) > 20
    assert errors.median <= 0.015
    assert errors.nine_in_ten <= 0.1


def test_cache_of_the_whole_budget_elsewhere() -> None:
    errors = Errors.of([each for each in started() if not each.row["sweep"]], lambda each: each.budget_gib)

    assert errors.median <= 0.9
    assert errors.worst <= 5


@pytest.mark.parametrize("width", [1, 2, 4])
def test_no_width_is_favoured(width: int) -> None:
    errors = Errors.of([each for each in started() if each.width == width], lambda each: each.budget_gib)

    assert abs(errors.lean) <= 0.2


def test_nothing_that_started_is_refused() -> None:
    assert [each.row["id"] for each in by_outcome("ok") if each.sized.verdict is FitVerdict.REFUSED] == []


def test_what_engines_refused_is_refused_or_warned_of() -> None:
    refused = by_outcome("refused")

    assert sum(each.warned for each in refused) >= 0.8 * len(refused)


def test_half_of_what_ran_out_of_memory_is_warned_of() -> None:
    failed = by_outcome("oom")

    assert sum(each.warned for each in failed) >= len(failed) / 2


def test_printed_figures_lie_inside_our_bands() -> None:
    inside = [
        held.kv_cache.low <= each.cache_gib * 2**30 <= held.kv_cache.high
        for each in started()
        if (held := each.sized.per_gpu) is not None and each.cache_gib is not None
    ]

    assert sum(inside) >= 0.9 * len(inside)
