"""Caches of llama.cpp that others have printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.domain.shape import Shape
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.llamacpp_cache import Cells, cells_of, layer_bytes

MIB = 2**20
TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "llamacpp_published.json").read_text())


def cache_mib(row: dict[str, Any], *, full_windows: bool = False) -> float:
    shape = read_config(TABLE["models"][row["model"]])
    assert isinstance(shape, Shape)
    slots, kind = row.get("slots", 1), row.get("cache", "f16")
    context = cells_of(row["context"], slots, unified=False)
    cells = Cells(context, slots, False, row.get("batch", 512), kind, kind, full_windows)
    return sum(layer_bytes(shape, layer, cells) for layer in shape.layers) / MIB


@pytest.mark.parametrize("row", TABLE["caches"], ids=lambda row: row["source"].split(":")[0])
def test_a_printed_cache_is_met_within_one_percent(row: dict[str, Any]) -> None:
    if "less_than_full" in row:
        assert cache_mib(row, full_windows=True) - cache_mib(row) == pytest.approx(row["less_than_full"], rel=0.01)
    else:
        assert cache_mib(row) == pytest.approx(row["mib"], rel=0.01)
