"""The types in which weights are held: what a profile or an engine makes of a checkpoint's own while loading it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.shape import QuantPart, Scheme

if TYPE_CHECKING:
    from reconciler.domain.shape import Shape
    from reconciler.sizing.memory_ask import MemoryAsk

FULL, HALF = 4, 2
FULL_NAMES = frozenset({"float32", "float", "fp32"})

_FP8 = QuantPart(Scheme.FP8_TENSOR, bits=8)
_FP8_BLOCK = QuantPart(Scheme.FP8_BLOCK, bits=8, block=(128, 128))
_INT8 = QuantPart(Scheme.INT8, bits=8)
_MXFP8 = QuantPart(Scheme.MXFP8, bits=8, group=32)
_MXFP4 = QuantPart(Scheme.MXFP4, bits=4, group=32)
_BLOCKS_OF_64 = QuantPart(Scheme.MXFP4, bits=4, group=16)
"""bitsandbytes: half a byte, and a 32-bit scale for each 64 values, which is as much as one byte for each 16."""

WHILE_LOADING = {
    "fp8": _FP8,
    "fp8_per_tensor": _FP8,
    "fp8_per_channel": QuantPart(Scheme.FP8_CHANNEL, bits=8),
    "fp8_per_block": _FP8_BLOCK,
    "ptpc_fp8": QuantPart(Scheme.FP8_CHANNEL, bits=8),
    "w8a8_fp8": QuantPart(Scheme.FP8_CHANNEL, bits=8),
    "fbgemm_fp8": QuantPart(Scheme.FP8_CHANNEL, bits=8),
    "w8a8_int8": _INT8,
    "int8_per_channel_weight_only": _INT8,
    "mxfp8": _MXFP8,
    "mxfp4": _MXFP4,
    "bitsandbytes": _BLOCKS_OF_64,
}
"""What a 16-bit checkpoint becomes under this name.

`fp8`, `fp8_per_*`, `int8_per_channel_weight_only`, `mxfp8` and `mxfp4` are vLLM 0.32's (config/quantization.py). The
others are names of SGLang and of older vLLM (0.32 has no bitsandbytes any more): what they store is taken from their
formats, their code was not read.
"""


def loaded_unit(ask: MemoryAsk) -> int:
    """Bytes of a plain value: 16 bit, also for 32-bit checkpoints under `auto`, unless the profile says float32."""
    return FULL if ask.dtype in FULL_NAMES else HALF


def file_unit(shape: Shape) -> int:
    """Bytes of a plain value in the files, as the config has it."""
    return FULL if shape.dtype in FULL_NAMES else HALF


def loaded_part(shape: Shape, ask: MemoryAsk) -> tuple[QuantPart | None, tuple[str, ...]]:
    """How plain matrices are quantized while loading, and what of it is not known; a quantized checkpoint stays so."""
    if ask.quantization is None or shape.quantization is not None:
        return None, ()
    part = WHILE_LOADING.get(ask.quantization.lower())
    if part is not None:
        return part, ()
    return None, (f"what quantization {ask.quantization} makes of 16-bit weights is not known: counted as 16 bit",)
