"""Why an engine would not load an adapter beside a model, from what the lock holds of both.

peft's adapters carry the rank and the modules they change; their tensors say how many layers and how wide. What a
lock does not tell is not guessed: an adapter is refused only where the engine is certain to refuse it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.lock import WeightFormat
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape
from reconciler.sizing.module import Split
from reconciler.sizing.modules import language_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.lock import LockedSource

WIDEST_RANK = 512
"""vLLM offers no wider slots (config/lora.py)."""

_BYTES = {"f32": 4, "f16": 2, "bf16": 2}
NO_ADAPTERS = {
    Engine.TRTLLM: "cannot be loaded: trtllm-serve takes adapters with each request, by a path, and knows none by name",
    Engine.COMFYUI: "cannot be loaded: in ComfyUI a workflow names the adapters that it wants",
}
"""Why an engine loads no adapter at all, as the end of a sentence that begins with the adapter's name."""

_OF_PEFT = frozenset({Engine.VLLM, Engine.SGLANG})
_FEATURES = (("use_dora", "DoRA"), ("modules_to_save", "whole modules (modules_to_save)"))
"""What vLLM refuses in an adapter_config.json (lora/peft_helper.py)."""


def unfit(engine: Engine, adapter: LockedSource, base: LockedSource, shape: Shape | None) -> Iterator[str]:
    """Each reason, as the end of a sentence that begins with the adapter's name; `shape` is the model's, if known."""
    if engine is Engine.LLAMACPP:
        yield from _as_gguf(adapter, base)
    elif engine in _OF_PEFT:
        yield from _as_peft(engine, adapter, shape)


def too_wide(engine: Engine, adapter: LockedSource, slots: int | None) -> str | None:
    """Why its rank does not go into the slots; `slots` is what --max-lora-rank says, None without it."""
    rank = _rank(adapter)
    if rank is None or engine not in _OF_PEFT:
        return None
    if slots is not None and rank > slots:
        return f"has rank {rank}, and --max-lora-rank is {slots}"
    if slots is None and engine is Engine.VLLM and rank > WIDEST_RANK:
        return f"has rank {rank}, and vLLM takes at most {WIDEST_RANK}"
    return None


def _as_gguf(adapter: LockedSource, base: LockedSource) -> Iterator[str]:
    if adapter.format is WeightFormat.PEFT:
        yield "is in peft's format, and llama.cpp loads adapters as GGUF only"
        return
    told, own = adapter.config or {}, base.config or {}
    kind = told.get("general.type")
    if isinstance(kind, str) and kind != "adapter":
        yield f"is no adapter: its file says that it is a {kind}"
    wanted, found = own.get("general.architecture"), told.get("general.architecture")
    if wanted and found and wanted != found:
        yield f"is made for the architecture {found}, and the model is {wanted}"


def _as_peft(engine: Engine, adapter: LockedSource, shape: Shape | None) -> Iterator[str]:
    if adapter.format is not WeightFormat.PEFT:
        yield f"is in the format {adapter.format}, and {engine} loads adapters as peft writes them"
        return
    config = adapter.adapter_config or {}
    kind = config.get("peft_type", "LORA")
    if kind != "LORA":
        yield f"is of the kind {kind}, and {engine} loads LORA only"
    if engine is Engine.VLLM:
        used = [words for key, words in _FEATURES if config.get(key)]
        if used:
            yield f"uses {' and '.join(used)}, which vLLM does not load"
    if shape is not None:
        yield from _other_sizes(adapter, shape)


def _other_sizes(adapter: LockedSource, shape: Shape) -> Iterator[str]:
    """Whether it was made for a model with more layers, or with attention of another width."""
    runs = adapter.tensors or ()
    last = max((run.layers[1] for run in runs if run.layers is not None), default=-1)
    if last >= len(shape.layers):
        yield f"changes layer {last}, and the model has {len(shape.layers)} layers (0 to {len(shape.layers) - 1})"
        return
    wanted = _attention_numbers(adapter, shape)
    found = [run for run in runs if run.group == "attention"]
    if wanted is None or not found or any(run.dtype not in _BYTES for run in found):
        return
    numbers = sum(run.bytes // _BYTES[run.dtype] for run in found)
    layers = sum(run.layers[1] - run.layers[0] + 1 for run in found if run.layers is not None)
    if layers and numbers != wanted * layers:
        yield (
            f"is made for attention of another width: it has {numbers // layers:,} numbers a layer,"
            f" and this model takes {wanted:,} at rank {_rank(adapter)}"
        )


def _attention_numbers(adapter: LockedSource, shape: Shape) -> int | None:
    """Numbers of its matrices beside attention in one layer; None where the config or the shape leaves it open."""
    config = adapter.adapter_config or {}
    targets, rank = config.get("target_modules"), _rank(adapter)
    open_ends = any(config.get(key) for key in ("rank_pattern", "use_dora", "modules_to_save", "layers_pattern"))
    if rank is None or open_ends or not isinstance(targets, list) or config.get("bias", "none") != "none":
        return None
    sizes = _attention_sizes(shape)
    if sizes is None or not sizes.keys() & set(targets):
        return None
    return rank * sum(inputs + outputs for name, (inputs, outputs) in sizes.items() if name in targets)


def _attention_sizes(shape: Shape) -> dict[str, tuple[int, int]] | None:
    """Inputs and outputs of plain attention; None where layers differ or attention is of another kind."""
    modules = [each for each in language_modules(shape) if each.layers and each.path.startswith("self_attn.")]
    every = tuple(range(len(shape.layers)))
    queries = [each for each in modules if each.split is Split.QKV]
    outputs = [each for each in modules if each.path == "self_attn.o_proj"]
    if len(modules) != len(queries) + len(outputs) or len(queries) != 1 or len(outputs) != 1:
        return None
    (qkv,), (out,) = queries, outputs
    if qkv.layers != every or out.layers != every:
        return None
    return {
        "q_proj": (qkv.inputs, qkv.heads * qkv.head_dim),
        "k_proj": (qkv.inputs, qkv.kv_heads * qkv.head_dim),
        "v_proj": (qkv.inputs, qkv.kv_heads * qkv.value_dim),
        "o_proj": (out.inputs, out.outputs[0]),
    }


def _rank(adapter: LockedSource) -> int | None:
    rank = (adapter.adapter_config or {}).get("r")
    return rank if type(rank) is int and rank > 0 else None
