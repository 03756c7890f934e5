"""Bytes of the state that a recurrent layer keeps for one sequence on one rank.

Shapes and types: vLLM 0.32 `model_executor/layers/mamba/mamba_utils.py` and each model's own
`get_mamba_state_dtype_from_config`; SGLang 0.5.23 `configs/mamba_utils.py`. All of them keep the last taps of the
convolution and one matrix a head; they differ in the type of the matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Recurrence
from reconciler.sizing.kv_dtypes import FP32_NAMES, HALF, model_number_bytes

if TYPE_CHECKING:
    from reconciler.domain.shape import Recurrent, Shape
    from reconciler.sizing.memory_ask import MemoryAsk

FLOAT32 = 4
_WIDE_BY_DEFAULT = ("nemotron_h", "qwen3_5")
"""Float32 where the config says nothing: of Nemotron-H vLLM keeps it so (models/config.py). Every published config of
Qwen3.5 and 3.6 says float32, so one that is silent was noted down by hand; vLLM itself would take the model's type."""
_READ_FROM_CONFIG = ("nemotron_h", "qwen3_5", "qwen4")
"""The families whose config vLLM asks for the type of the state; the others take the model's own type."""


def state_bytes(recurrent: Recurrent, shape: Shape, ask: MemoryAsk, engine: Engine) -> int:
    """State of one layer for one sequence on one of `ask.tensor` ranks; widths that do not divide are rounded up."""
    width, taps = ask.tensor, max(0, recurrent.convolution - 1)
    plain = model_number_bytes(ask)
    wide = _matrix_bytes(recurrent, shape, plain, engine)
    match recurrent.kind:
        case Recurrence.MAMBA1:
            inner = _share(recurrent.inner, width)
            return inner * taps * plain + inner * recurrent.state * wide
        case Recurrence.MAMBA2:
            mixed = recurrent.inner + 2 * _groups(recurrent.groups, width) * recurrent.state
            matrix = _share(recurrent.heads, width) * recurrent.head_dim * recurrent.state
            return _share(mixed, width) * taps * plain + matrix * wide
        case Recurrence.GATED_DELTA:
            mixed = 2 * recurrent.key_heads * recurrent.key_dim + recurrent.inner
            matrix = _share(recurrent.heads, width) * recurrent.head_dim * recurrent.key_dim
            return _share(mixed, width) * taps * plain + matrix * wide
        case Recurrence.KIMI_DELTA:
            matrix = _share(recurrent.heads, width) * recurrent.head_dim * recurrent.head_dim
            return _share(3 * recurrent.inner, width) * taps * plain + matrix * wide
        case Recurrence.SHORT_CONVOLUTION:
            return _share(recurrent.inner, width) * taps * plain
        case Recurrence.LIGHTNING:
            return _share(recurrent.heads, width) * recurrent.head_dim * recurrent.head_dim * wide
        case _:
            assert_never(recurrent.kind)


def states_kept(recurrent: Recurrent, states: int) -> int:
    """States of one request where `states` are kept for the prefix cache: Mamba 2 writes a checkpoint besides."""
    return states + 1 if states > 1 and recurrent.kind is Recurrence.MAMBA2 else states


def _groups(groups: int, width: int) -> int:
    """Groups that all ranks hold together: copied until every rank has one."""
    return groups if groups % width == 0 else width


def _matrix_bytes(recurrent: Recurrent, shape: Shape, plain: int, engine: Engine) -> int:
    """Bytes of one number of the matrices."""
    written = None if recurrent.state_dtype is None else FLOAT32 if recurrent.state_dtype in FP32_NAMES else HALF
    if engine is Engine.SGLANG:
        return FLOAT32 if written is None else written
    if recurrent.kind is Recurrence.KIMI_DELTA:
        return FLOAT32
    if not shape.model_type.lower().startswith(_READ_FROM_CONFIG):
        return plain
    if written is not None:
        return written
    return FLOAT32 if shape.model_type.lower().startswith(_WIDE_BY_DEFAULT) else plain


def _share(size: int, width: int) -> int:
    return -(-size // width)
