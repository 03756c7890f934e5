"""docs/engines.md, held against the registry: every engine, and the figures that the modules have too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.engines.registry import launchable, support

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text("utf-8")
HEADINGS = {
    Engine.VLLM: "vLLM",
    Engine.SGLANG: "SGLang",
    Engine.TRTLLM: "TensorRT-LLM",
    Engine.LLAMACPP: "llama.cpp",
    Engine.COMFYUI: "ComfyUI",
}


def rows(engine: Engine) -> list[list[str]]:
    """Its rows of all tables, as cells."""
    lines = [line for line in PAGE.splitlines() if line.startswith(f"| `{engine}` |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_engine_of_the_registry_has_a_section() -> None:
    assert [HEADINGS[engine] for engine in launchable() if f"\n## {HEADINGS[engine]}\n" not in PAGE] == []


@pytest.mark.parametrize("engine", launchable())
def test_the_tables_tell_of_an_engine_what_its_module_does(engine: Engine) -> None:
    module = support(engine)
    assert module is not None
    verified, stops = rows(engine)
    assert any(each.isdigit() for each in verified[1]), "no version says on what it was verified"
    repeat, kill = (re.fullmatch(r"(\d+) s", cell) for cell in stops[2:4])
    assert repeat is not None
    assert kill is not None
    assert float(repeat[1]) == module.stop.repeat_after.total_seconds()
    assert float(kill[1]) == module.stop.kill_after.total_seconds()
    assert re.findall(r"`(\w+_KEY)`", stops[4]) == list(module.key_env)
