"""Bytes of one holding on the fullest rank: what the engine shares out, what it copies, and what it pads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Scheme
from reconciler.sizing.holdings import Group
from reconciler.sizing.module import Part, Split
from reconciler.sizing.partition import padded_vocabulary
from reconciler.sizing.stored_bytes import refined, stored_bytes

if TYPE_CHECKING:
    from reconciler.domain.shape import QuantPart
    from reconciler.sizing.holdings import Holding
    from reconciler.sizing.module import Module

MXFP4_WIDTH, MXFP4_HIDDEN = 128, 256
"""vLLM 0.32 pads MXFP4 experts to these under Marlin and TensorRT-LLM's kernels (fused_moe/oracle/mxfp4.py).

Other kernels pad less; which one runs depends on version and card. Logs lie from 2.4 % below to 2.2 % above this.
"""

MIB = 2**20
OWN_SEGMENT, SEGMENT_STEP, SMALL_REST = 10 * MIB, 2 * MIB, MIB
"""kMinLargeAlloc, kRoundLarge and kSmallSize of PyTorch's allocator (c10/core/AllocatorConfig.h)."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Over how many ranks each kind of matrix is shared out, and the type of plain values."""

    tensor: int
    unit: int
    """Bytes of a value that nothing quantizes."""
    expert_width: int = 1
    """Ranks that share the width of each expert."""
    expert_ranks: int = 1
    """Ranks that share whole experts."""
    embedding: int = 1
    head: int = 1
    tower: int = 1
    whole_towers: frozenset[str] = frozenset()
    """Towers kept whole because their heads do not divide."""
    whole_attention: frozenset[str] = frozenset()
    """Towers of which the attention alone is, for the same reason."""
    engine: Engine | None = None
    """None: as files hold it, without any padding."""


def as_stored(unit: int) -> Ranks:
    """The whole model as its files hold it."""
    return Ranks(tensor=1, unit=unit)


def rank_bytes(holding: Holding, ranks: Ranks) -> int:
    """Bytes of it in one layer."""
    module, part = holding.module, holding.part
    if module.split is Split.EXPERTS:
        return _experts(holding, ranks)
    if module.split is Split.VOCABULARY:
        over = ranks.head if holding.group is Group.OUTPUT_HEAD else ranks.embedding
        rows = _rows(module.outputs[0], over, ranks.engine)
        bias = rows * ranks.unit if holding.biased else 0
        return stored_bytes(part, module.inputs, (rows,), ranks.unit) + bias
    over = _tower_ranks(module, ranks) if module.part is Part.TOWER else ranks.tensor
    inputs, outputs = shares(module, over)
    size = stored_bytes(part, inputs, outputs, ranks.unit)
    if holding.biased:
        size += sum(outputs) * ranks.unit
    return size * holding.copies


def block_slack(holding: Holding, ranks: Ranks) -> int:
    """What PyTorch's allocator leaves unused behind each large tensor of a holding, in one layer.

    From 10 MiB on a tensor has a segment of its own in steps of 2 MiB; a rest of up to 1 MiB is not split off. Engines
    report it as part of the weights: with it, logs of eight dense models meet to the hundredth of a GiB they print.
    """
    module, part = holding.module, holding.part
    if module.split is Split.EXPERTS:
        width, inputs, experts = _expert_sizes(holding, ranks)
        cells = width * inputs * experts
        return _slack(_values(part, 2 * cells if holding.gated else cells, ranks)) + _slack(_values(part, cells, ranks))
    if module.part is Part.TOWER or module.part is Part.NORM:
        return 0
    if module.split is Split.VOCABULARY:
        over = ranks.head if holding.group is Group.OUTPUT_HEAD else ranks.embedding
        return _slack(_values(part, _rows(module.outputs[0], over, ranks.engine) * module.inputs, ranks))
    inputs, outputs = shares(module, ranks.tensor)
    return _slack(_values(part, inputs * sum(outputs), ranks)) * holding.copies


def _values(part: QuantPart | None, cells: int, ranks: Ranks) -> int:
    return cells * ranks.unit if part is None or part.bits is None else cells * part.bits // 8


def _slack(size: int) -> int:
    rest = -size % SEGMENT_STEP
    return rest if size >= OWN_SEGMENT and rest <= SMALL_REST else 0


def _tower_ranks(module: Module, ranks: Ranks) -> int:
    attends = module.path.startswith("attn.")
    whole = module.where in ranks.whole_towers or (attends and module.where in ranks.whole_attention)
    return 1 if whole else ranks.tower


def shares(module: Module, over: int) -> tuple[int, tuple[int, ...]]:
    """Inputs and outputs on one rank; what does not divide is rounded up."""
    match module.split:
        case Split.ROW:
            return -(-module.inputs // over), module.outputs
        case Split.COLUMN:
            return module.inputs, tuple(-(-size // over) for size in module.outputs)
        case Split.QKV:
            heads, keys = -(-module.heads // over), max(1, -(-module.kv_heads // over))
            return module.inputs, (heads * module.head_dim, keys * module.head_dim, keys * module.value_dim)
        case Split.WHOLE | Split.EXPERTS | Split.VOCABULARY:
            return module.inputs, module.outputs


def _rows(rows: int, over: int, engine: Engine | None) -> int:
    """Rows of the vocabulary on one rank: vLLM pads to 64, SGLang to 64 on each rank, TensorRT-LLM to the width."""
    if engine is None:
        return rows
    if engine is Engine.SGLANG:
        return padded_vocabulary(-(-rows // over))
    return -(-(rows if engine is Engine.TRTLLM else padded_vocabulary(rows)) // over)


def _experts(holding: Holding, ranks: Ranks) -> int:
    """Gate and up projection, and down projection, of the experts on the fullest rank."""
    width, inputs, experts = _expert_sizes(holding, ranks)
    part = refined(holding.part, width, inputs)
    return _expert(part, inputs, width, holding, ranks.unit) * experts * holding.copies


def _expert_sizes(holding: Holding, ranks: Ranks) -> tuple[int, int, int]:
    """Width and inputs of each expert on the fullest rank, and how many it has."""
    width, inputs = -(-holding.module.outputs[0] // ranks.expert_width), holding.module.inputs
    part = holding.part
    if part is not None and part.scheme is Scheme.MXFP4 and ranks.engine is not None:
        width, inputs = _up_to(width, MXFP4_WIDTH), _up_to(inputs, MXFP4_HIDDEN)
    return width, inputs, -(-holding.experts // ranks.expert_ranks)


def _expert(part: QuantPart | None, inputs: int, width: int, holding: Holding, unit: int) -> int:
    up = (width, width) if holding.gated else (width,)
    bias = (sum(up) + inputs) * unit if holding.biased else 0
    return stored_bytes(part, inputs, up, unit) + stored_bytes(part, width, (inputs,), unit) + bias


def _up_to(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
