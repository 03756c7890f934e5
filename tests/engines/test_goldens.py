"""Which command lines are pinned: each engine x (one GPU of each maker, four, two nodes, CPUs, adapters, …).

A pair without a golden is one that the gate refuses, by the same tables as here; the rest of each engine's goldens is
beside it. Who took them stands in their first lines, and for llama.cpp in `test_llamacpp`: the program runs each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.engines.base import Vendor
from reconciler.engines.devices import vendor_of
from reconciler.engines.fields import VENDORS, not_taken
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


def on(vendor: Vendor) -> Callable[[Declaration], bool]:
    return lambda each: each.gpu_class is not None and vendor_of(each.gpu_class) is vendor


KINDS: Mapping[str, Callable[[Declaration], bool]] = {
    "one GPU": lambda each: each.gpus == 1 and each.nodes == 1,
    "AMD": on(Vendor.AMD),
    "Gaudi": on(Vendor.INTEL),
    "four GPUs": lambda each: each.gpus == 4 and each.nodes == 1,
    "two nodes": lambda each: each.nodes == 2,
    "CPUs": lambda each: each.gpu_class is None,
    "two nodes on CPUs": lambda each: each.nodes == 2 and each.gpu_class is None,
    "adapters on GPUs": lambda each: bool(each.adapters) and each.gpu_class is not None,
    "adapters on CPUs": lambda each: bool(each.adapters) and each.gpu_class is None,
    "quantized cache": lambda each: each.kv_cache_dtype not in {None, "auto", "bf16"},
}


def refused(engine: Engine, kind: str) -> str | None:
    """Why the gate lets no such replica of this engine pass; None where it does."""
    match kind:
        case "four GPUs" if engine is Engine.COMFYUI:
            return "inventory/single-gpu-engine"
        case "two nodes":
            return not_taken(engine, "nodes")
        case "AMD" if Vendor.AMD not in VENDORS[engine]:
            return "inventory/unsupported"
        case "Gaudi" if Vendor.INTEL not in VENDORS[engine]:
            return "inventory/unsupported"
        case "CPUs" | "adapters on CPUs" | "two nodes on CPUs" if engine not in ON_CPUS:
            return "inventory/cpu-profile"
        case "two nodes on CPUs":
            return not_taken(engine, "nodes")
        case "adapters on GPUs" | "adapters on CPUs":
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
