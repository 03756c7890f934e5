"""Which fields of a profile an engine has no use for, and why, and whose GPUs it runs on: the gate refuses the rest.

Every other field is taken: it changes the command line, the environment, the files or the placement of a replica. A
field that passed and did nothing would be believed. `tests/engines/test_fields.py` holds both halves for every pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.engines.base import Vendor
from reconciler.engines.devices import vendor_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_ONE_GPU = "comfyui computes on one GPU"
_AS_NAMED = "comfyui loads what its workflows name, in the types that they name"
_OWN_TOWER = "the checkpoint brings its own; only llama.cpp takes a projector as a file beside the model"

NOT_TAKEN: Mapping[str, Mapping[Engine, str]] = {
    "nodes": {
        Engine.LLAMACPP: "llama.cpp spans nodes only through RPC servers, which no agent starts and which check nobody",
        Engine.COMFYUI: _ONE_GPU,
    },
    "pipeline_parallel": {
        Engine.LLAMACPP: "llama.cpp spreads its layers over the GPUs by itself",
        Engine.COMFYUI: _ONE_GPU,
    },
    "data_parallel": {
        Engine.TRTLLM: "trtllm-serve has no data-parallel ranks",
        Engine.LLAMACPP: "llama.cpp has no data-parallel ranks",
        Engine.COMFYUI: _ONE_GPU,
    },
    "expert_parallel": {
        Engine.LLAMACPP: "llama.cpp keeps the experts of a layer on the GPU of that layer",
        Engine.COMFYUI: _ONE_GPU,
    },
    "memory_share": {
        Engine.LLAMACPP: "llama.cpp reserves no share of a GPU: it takes what weights, context and slots need",
        Engine.COMFYUI: "comfyui reserves no share of a GPU: it loads and unloads as its workflows need",
    },
    "kv_cache_dtype": {Engine.COMFYUI: "comfyui keeps no KV cache of its own"},
    "dtype": {
        Engine.LLAMACPP: "llama.cpp computes with the types that are in the GGUF file",
        Engine.COMFYUI: _AS_NAMED,
    },
    "quantization": {
        Engine.TRTLLM: "trtllm-serve quantizes as the checkpoint's own files say",
        Engine.LLAMACPP: "llama.cpp computes with the types that are in the GGUF file",
        Engine.COMFYUI: _AS_NAMED,
    },
    "max_concurrency": {Engine.COMFYUI: "comfyui runs one workflow at a time and queues the rest"},
    "mmproj": dict.fromkeys((Engine.VLLM, Engine.SGLANG, Engine.TRTLLM), _OWN_TOWER) | {Engine.COMFYUI: _AS_NAMED},
}
"""By field, then engine: the reason, as the end of a sentence (facts/engines.md sections 1.2 and 1.3)."""


VENDORS: Mapping[Engine, frozenset[Vendor]] = {
    Engine.VLLM: frozenset({Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL}),  # Gaudi through its plug-in, vllm-gaudi
    Engine.SGLANG: frozenset({Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL}),  # 0.5.23 asks for torch.hpu (utils/common.py)
    Engine.TRTLLM: frozenset({Vendor.NVIDIA}),
    Engine.LLAMACPP: frozenset({Vendor.NVIDIA, Vendor.AMD}),  # CUDA and HIP; its SYCL is for GPUs, which Gaudi is none
    Engine.COMFYUI: frozenset({Vendor.NVIDIA, Vendor.AMD}),
}
"""Whose GPUs each program has kernels for, as far as a build for them exists; which build a node has only it knows."""

VENDOR_NAMES: Mapping[Vendor, str] = {Vendor.NVIDIA: "NVIDIA", Vendor.AMD: "AMD", Vendor.INTEL: "Intel (Gaudi)"}
"""For people."""


def runs_on(engine: Engine, gpu_class: str) -> bool:
    """Whether the engine has kernels for GPUs of this class's maker."""
    return vendor_of(gpu_class) in VENDORS[engine]


def not_taken(engine: Engine, field: str) -> str | None:
    """Why the engine has no use for a field; None where it takes it."""
    return NOT_TAKEN.get(field, {}).get(engine)
