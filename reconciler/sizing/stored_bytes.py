"""Bytes of one matrix on the GPU in each way of storing weights: packed values, scales, zero points, block scales.

Sizes are those of the parameters that vLLM 0.32 creates (`model_executor/layers/quantization`); SGLang's and
TensorRT-LLM's hold the same numbers in the same types.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING

from reconciler.domain.shape import Scheme

if TYPE_CHECKING:
    from reconciler.domain.shape import QuantPart

FULL = 4
"""Bytes of a 32-bit number: scales of FP8 and INT8."""
HALF = 2
"""Bytes of a 16-bit number: scales of 4-bit integers, in the model's own type."""
SHAPE_BYTES = 16
"""weight_shape of compressed-tensors: two 64-bit numbers."""
SMALLEST_REFINED = 32
"""Blocks of experts are refined down to this (fused_moe/oracle/fp8.py)."""
USUAL_BLOCK = 128
MARLIN_INPUTS = 128
"""Inputs of experts that Marlin takes are a multiple of this."""
DEFAULT_BITS = 4
"""Of GPTQ, AWQ and packed checkpoints whose config does not say."""


def stored_bytes(part: QuantPart | None, inputs: int, outputs: tuple[int, ...], unit: int) -> int:
    """Bytes of a matrix of these inputs and merged outputs; `unit` is a value's size where nothing quantizes it."""
    columns = sum(outputs)
    cells = inputs * columns
    if part is None:
        return cells * unit
    match part.scheme:
        case Scheme.AWQ | Scheme.GPTQ | Scheme.PACKED:
            return _grouped(part, inputs, columns)
        case Scheme.FP8_BLOCK:
            rows, across = part.block or (USUAL_BLOCK, USUAL_BLOCK)
            return cells + FULL * -(-columns // rows) * -(-inputs // across)
        case Scheme.FP8_TENSOR:
            return cells + FULL * len(outputs)
        case Scheme.FP8_CHANNEL | Scheme.INT8:
            return cells + FULL * columns
        case Scheme.MXFP8:
            return cells + cells // (part.group or 32)
        case Scheme.MXFP4 | Scheme.NVFP4:
            return cells // 2 + cells // (part.group or (16 if part.scheme is Scheme.NVFP4 else 32))
        case Scheme.W4A8:
            return cells // 2 + columns * -(-inputs // (part.group or inputs or 1)) * HALF + FULL * columns
        case Scheme.GGUF | Scheme.UNKNOWN:
            return cells * (part.bits or 8 * unit) // 8


def _grouped(part: QuantPart, inputs: int, columns: int) -> int:
    """Integers with a scale and mostly a zero point for each group of inputs; -1 is one group."""
    bits = part.bits or DEFAULT_BITS
    groups = -(-inputs // part.group) if part.group and part.group > 0 else 1
    zeros = groups * columns * bits // 8
    if part.scheme is Scheme.PACKED:
        zeros = SHAPE_BYTES if part.symmetric else zeros + SHAPE_BYTES
    return inputs * columns * bits // 8 + groups * columns * HALF + zeros


def refined(part: QuantPart | None, width: int, inputs: int) -> QuantPart | None:
    """How experts are stored whose width on a rank is no multiple of group or block: finer, down to 32."""
    if part is None or not width or not inputs:
        return part
    if part.scheme in (Scheme.AWQ, Scheme.GPTQ):
        return _plain_kernel(part, width, inputs)
    if part.block is None:
        return part
    rows, across = part.block
    finer = gcd(rows, across, width, inputs)
    if (width % rows == 0 and width % across == 0) or finer < SMALLEST_REFINED:
        return part
    return replace(part, block=(finer, finer))


def _plain_kernel(part: QuantPart, width: int, inputs: int) -> QuantPart:
    """Where Marlin does not take the experts (marlin_utils.py), moe_wna16.py stores them in its own way.

    It halves the group until it divides both sides, and keeps no zero points of symmetric weights.
    """
    group = part.group if part.group is not None else -1
    if inputs % MARLIN_INPUTS == 0 and (group <= 0 or width % group == 0):
        return part
    while group > SMALLEST_REFINED and (width % group or inputs % group):
        group //= 2
    return replace(part, scheme=Scheme.PACKED if part.symmetric else part.scheme, group=group)
