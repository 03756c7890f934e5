"""Why an engine would not load an adapter beside a model, from what the lock holds of both.

peft's adapters carry their kind, the rank and the modules they change; `adapter_sizes` asks whether those are this
model's. What a lock does not tell is not guessed: an adapter is refused only where the engine is certain to refuse it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.lock import WeightFormat
from reconciler.domain.model_spec import Engine
from reconciler.gate.adapter_sizes import ALL_LINEAR, other_model, rank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.lock import LockedSource
    from reconciler.domain.shape import Shape

WIDEST_RANK = 512
"""vLLM offers no wider slots (config/lora.py)."""

NO_ADAPTERS = {
    Engine.TRTLLM: "cannot be loaded: trtllm-serve takes adapters with each request, by a path, and knows none by name",
    Engine.COMFYUI: "cannot be loaded: in ComfyUI a workflow names the adapters that it wants",
}
"""Why an engine loads no adapter at all, as the end of a sentence that begins with the adapter's name."""

_OF_PEFT = frozenset({Engine.VLLM, Engine.SGLANG})
_SHORTHANDS = (ALL_LINEAR, "all")
"""What SGLang takes for target_modules besides a list (lora/lora_manager.py::init_lora_shapes)."""
_FEATURES = (("use_dora", "DoRA"), ("modules_to_save", "whole modules (modules_to_save)"))
"""What vLLM refuses in an adapter_config.json (lora/peft_helper.py)."""


def unfit(
    engine: Engine, adapter: LockedSource, base: LockedSource, shape: Shape | None, *, targets_given: bool = False
) -> Iterator[str]:
    """Each reason, as the end of a sentence that begins with the adapter's name; `shape` is the model's, if known.

    `targets_given`: the profile's arguments tell SGLang which modules adapters may change.
    """
    if engine is Engine.LLAMACPP:
        yield from _as_gguf(adapter, base)
    elif engine in _OF_PEFT:
        yield from _as_peft(engine, adapter, shape, targets_given=targets_given)


def too_wide(engine: Engine, adapter: LockedSource, slots: int | None) -> str | None:
    """Why its rank does not go into the slots; `slots` is what --max-lora-rank says, None without it."""
    own = rank(adapter)
    if own is None or engine not in _OF_PEFT:
        return None
    if slots is not None and own > slots:
        return f"has rank {own}, and --max-lora-rank is {slots}"
    if slots is None and engine is Engine.VLLM and own > WIDEST_RANK:
        return f"has rank {own}, and vLLM takes at most {WIDEST_RANK}"
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


def _as_peft(engine: Engine, adapter: LockedSource, shape: Shape | None, *, targets_given: bool) -> Iterator[str]:
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
    targets = config.get("target_modules")
    if engine is Engine.SGLANG and isinstance(targets, str) and targets not in _SHORTHANDS and not targets_given:
        yield f"names its modules by the pattern {targets}, and SGLang reads lists of names only"
    if shape is not None:
        yield from other_model(adapter, shape)
