"""What llama.cpp itself says that it would allocate, against ours; bench/llamacpp_memory.py asked it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sizing.llamacpp_cases import Case, ours
from tests.sparse_gguf import write_sparse

TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "llamacpp_memory.json").read_text())
SMALL = 16
"""MiB below which a figure is not compared: the program prints whole ones."""
BAR = 0.03
PARTS = ("model", "context", "compute")


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a header of every model."""
    folder = tmp_path_factory.mktemp("headers")
    for name, spec in TABLE["models"].items():
        write_sparse(folder / f"{name}.gguf", spec)
    return folder


@pytest.mark.parametrize("model", TABLE["models"])
def test_every_part_of_every_device_is_met(model: str, headers: Path) -> None:
    rows = [row for row in TABLE["cases"] if row["model"] == model]
    assert len(rows) >= 5
    for row in rows:
        case = Case.of(row)
        for number, (theirs, mine) in enumerate(zip(row["mib"], ours(headers / f"{model}.gguf", case), strict=True)):
            for part, printed, counted in zip(PARTS, theirs, mine, strict=True):
                if printed >= SMALL:
                    where = f"{case}: {part} of device {number}"
                    assert printed * (1 - BAR) <= counted <= (printed + 1) * (1 + BAR), where


def test_the_table_has_every_kind_of_model() -> None:
    wanted = {trait for spec in TABLE["models"].values() for trait in spec["wanted"]}
    assert {"mla", "delta", "mamba1", "mamba2", "shortconv", "sinks", "fused_gate", "shared_gate"} <= wanted
    assert {row.get("key_type", "f16") for row in TABLE["cases"]} >= {
        "f16",
        "bf16",
        "f32",
        "q8_0",
        "q5_1",
        "q5_0",
        "q4_0",
    }
    assert {row.get("cards", 0) for row in TABLE["cases"]} == {0, 1, 2, 4}
