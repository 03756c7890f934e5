"""Whether a matrix divides over tensor-parallel ranks, rule by rule; quantized storage has its own rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.sizing.module import Part, Split
from reconciler.sizing.refusal import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.sizing.module import Module

VOCABULARY_MULTIPLE = 64
"""vLLM pads the vocabulary to a multiple of 64 (DEFAULT_VOCAB_PADDING_SIZE), then it has to divide."""

_REASONS = {
    Part.ATTENTION: Reason.ATTENTION_SPLIT,
    Part.MLP: Reason.MLP_SPLIT,
    Part.SHARED: Reason.MLP_SPLIT,
    Part.EXPERTS: Reason.EXPERTS_SPLIT,
    Part.RECURRENT: Reason.RECURRENT_SPLIT,
    Part.TOWER: Reason.VISION_SPLIT,
    Part.VOCABULARY: Reason.VOCAB_SPLIT,
}


def padded_vocabulary(rows: int) -> int:
    """Rows after vLLM's padding."""
    return -(-rows // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


def uneven(module: Module, width: int, expert_width: int) -> Iterator[Refusal]:
    """The ways in which one matrix does not divide; `expert_width` is the width experts are split over."""
    over = expert_width if module.split is Split.EXPERTS else width
    size = next((size for size in _divided(module) if size % over), None)
    if size is not None:
        numbers = {"size": size, "width": over}
        yield Refusal(_REASONS[module.part], _message(module, size, over), numbers, _name(module))


def _divided(module: Module) -> tuple[int, ...]:
    """The sizes that have to divide; heads and vocabulary have rules of their own."""
    match module.split:
        case Split.WHOLE | Split.VOCABULARY | Split.QKV:
            return ()
        case Split.ROW:
            return (module.inputs,)
        case Split.EXPERTS | Split.COLUMN:
            return module.outputs


def _message(module: Module, size: int, over: int) -> str:
    match module.part:
        case Part.MLP:
            return f"the feed-forward width {size:,} does not divide by {over}"
        case Part.SHARED:
            return f"the shared experts' width {size:,} does not divide by {over}"
        case Part.EXPERTS:
            return f"the experts' width {size:,} does not divide by {over}"
        case Part.RECURRENT:
            return f"the recurrent layers' width {size:,} ({module.path}) does not divide by {over}"
        case Part.TOWER:
            return f"the {module.where or 'tower'}'s width {size:,} ({module.path}) does not divide by {over}"
        case Part.ATTENTION | Part.VOCABULARY | Part.NORM:
            return f"{module.path} has {size:,} columns, which do not divide by {over}"


def _name(module: Module) -> str:
    return f"{module.where}.{module.path}" if module.where else module.path


def uneven_vocabulary(module: Module, width: int, engine: Engine, *, padded: bool) -> Iterator[Refusal]:
    """The vocabulary's split: only vLLM refuses one; SGLang pads to 64 x width, TensorRT-LLM to the width."""
    if engine is not Engine.VLLM:
        return
    rows = module.outputs[0]
    stored = padded_vocabulary(rows) if padded else rows
    if stored % width == 0:
        return
    what = "position table" if module.path == "position_embeddings" else "vocabulary"
    told = f"{rows:,} (padded to {stored:,})" if stored != rows else f"{rows:,}"
    yield Refusal(
        Reason.VOCAB_SPLIT,
        f"the {what} of {told} does not divide by {width}",
        {"rows": rows, "padded": stored, "width": width},
        module.path,
    )


def ranks_share(module: Module, width: int) -> tuple[int, tuple[int, ...]] | None:
    """Inputs and outputs of one rank; None where it does not divide."""
    match module.split:
        case Split.ROW:
            return None if module.inputs % width else (module.inputs // width, module.outputs)
        case Split.COLUMN:
            if any(size % width for size in module.outputs):
                return None
            return module.inputs, tuple(size // width for size in module.outputs)
        case Split.QKV:
            return _qkv_share(module, width)
        case Split.WHOLE:
            return module.inputs, module.outputs
        case Split.EXPERTS | Split.VOCABULARY:
            return None


def _qkv_share(module: Module, width: int) -> tuple[int, tuple[int, ...]] | None:
    keys = module.kv_heads
    if keys < 1 or module.heads % width or (keys % width if keys > width else width % keys):
        return None
    mine = max(1, keys // width)
    sizes = (module.heads // width * module.head_dim, mine * module.head_dim, mine * module.value_dim)
    return module.inputs, sizes
