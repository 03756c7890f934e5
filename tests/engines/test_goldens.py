"""Which command lines are pinned: each engine x (one GPU, four, two nodes, CPUs, adapters, quantized cache).

A pair without a golden is one that the gate refuses, by the same tables as here; the rest of each engine's goldens is
beside it. Who took them stands in their first lines, and for llama.cpp in `test_llamacpp`: the program runs each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.engines.fields import not_taken
from reconciler.gate.adapters import NO_ADAPTERS
from tests.engines import declarations, sglang_cases, test_comfyui, trtllm_cases, vllm_cases
from tests.engines.conformance import ON_CPUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from reconciler.domain.declaration import Declaration

PINNED: Mapping[Engine, Iterable[Declaration]] = {
    Engine.VLLM: [declared for declared, _ in vllm_cases.CASES.values()],
    Engine.SGLANG: [declared for declared, _ in sglang_cases.CASES.values()],
    Engine.TRTLLM: [declared for declared, _ in trtllm_cases.CASES.values()],
    Engine.LLAMACPP: declarations.CASES.values(),
    Engine.COMFYUI: [declared for declared, _ in test_comfyui.CASES.values()],
}

KINDS: Mapping[str, Callable[[Declaration], bool]] = {
    "one GPU": lambda each: each.gpus == 1 and each.nodes == 1,
    "four GPUs": lambda each: each.gpus == 4 and each.nodes == 1,
    "two nodes": lambda each: each.nodes == 2,
    "CPUs": lambda each: each.gpu_class is None,
    "adapters": lambda each: bool(each.adapters),
    "quantized cache": lambda each: each.kv_cache_dtype not in {None, "auto", "bf16"},
}


def refused(engine: Engine, kind: str) -> str | None:
    """Why the gate lets no such replica of this engine pass; None where it does."""
    match kind:
        case "four GPUs" if engine is Engine.COMFYUI:
            return "inventory/single-gpu-engine"
        case "two nodes":
            return not_taken(engine, "nodes")
        case "CPUs" if engine not in ON_CPUS:
            return "inventory/cpu-profile"
        case "adapters":
            return NO_ADAPTERS.get(engine)
        case "quantized cache":
            return not_taken(engine, "kv_cache_dtype")
        case _:
            return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", Engine)
def test_every_kind_of_launch_is_pinned_or_refused(engine: Engine, kind: str) -> None:
    found = [each for each in PINNED[engine] if KINDS[kind](each)]
    assert bool(found) is (refused(engine, kind) is None)
