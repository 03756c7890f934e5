"""What quantized storage adds to a split: a group or block of weights that shares a scale must stay on one rank.

vLLM 0.32 was read (`layers/quantization`), with what moved before it; SGLang 0.5.23 has the same rules and a stricter
tile of its Marlin kernel. Sources stand beside each rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Scheme
from reconciler.sizing.module import Split
from reconciler.sizing.partition import ranks_share
from reconciler.sizing.refusal import Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.shape import QuantPart
    from reconciler.sizing.module import Module

MARLIN_GROUPS = frozenset({-1, 32, 64, 128})
"""Groups its kernels take (marlin_utils.py); other AWQ groups run in the plain kernel."""
SMALLEST_REFINED = 32
"""fused_moe/oracle/fp8.py: block grids of experts are refined down to 32, not below."""
SMALLEST_HALVED = 32
"""moe_wna16.py halves the group until it divides, down to 32."""
NVFP4_GROUP = 16
MX_GROUP = 32
W4A8_TILE = 256
AWQ_PACK = 8
"""4-bit values in one 32-bit word."""

TILE_OR_NOTHING = (0, 6, 3)
"""vLLM before this had one kernel for GPTQ: a shape off its tiles was refused (public report of 0.5.1)."""
REFINED_BLOCKS = (0, 32)
"""vLLM from here refines the experts' block grid; before, and on GPUs without FP8, a block had to fit."""
PADDED_TILES = (0, 32)
"""vLLM from here pads Marlin's tiles; before, a rank's inputs had to divide by 128 and its outputs by 64."""
FORGIVES_MERGED = (0, 12)
"""vLLM from about here; the version that began it was not found, 0.32 has it."""
GPTQ_EXPERTS_LOAD = (0, 11)
"""vLLM before this starts GPTQ experts with cut groups and dies at the first request (public report of 0.9.1)."""
FP8_CAPABILITY = (8, 9)


@dataclass(frozen=True, slots=True)
class Setting:
    """What of the question the rules of storage depend on."""

    engine: Engine
    version: tuple[int, ...]
    width: int
    expert_width: int
    hidden: int
    capability: tuple[int, int] | None

    def before(self, version: tuple[int, ...]) -> bool:
        """A vLLM older than this."""
        return self.engine is Engine.VLLM and bool(self.version) and self.version[: len(version)] < version


def straddled(module: Module, part: QuantPart, setting: Setting) -> Iterator[Refusal]:
    """The ways in which a scale of this module would belong to two ranks."""
    if module.split is Split.EXPERTS:
        if module.outputs[0] % setting.expert_width == 0:
            yield from _experts(module, part, setting, module.outputs[0] // setting.expert_width)
        return
    share = ranks_share(module, setting.width)
    if share is None:
        return
    inputs, outputs = share
    yield from _dense(module, part, setting, inputs, outputs)
    if part.scheme in (Scheme.AWQ, Scheme.GPTQ, Scheme.PACKED):
        yield from _tile(module, part, setting, inputs, outputs)


def _dense(
    module: Module, part: QuantPart, setting: Setting, inputs: int, outputs: tuple[int, ...]
) -> Iterator[Refusal]:
    match part.scheme:
        case Scheme.AWQ:
            yield from _awq(module, part, inputs, outputs)
        case Scheme.GPTQ | Scheme.PACKED:
            yield from _group(module, part.group, inputs)
        case Scheme.FP8_BLOCK:
            yield from _block(module, part, setting, inputs, outputs)
        case Scheme.NVFP4 | Scheme.MXFP8:
            # modelopt.py checks; compressed_tensors_w4a4_nvfp4.py does not.
            if part.scheme is Scheme.MXFP8 or not part.targets:
                yield from _multiple(module, inputs, MX_GROUP if part.scheme is Scheme.MXFP8 else NVFP4_GROUP)
        case (
            Scheme.FP8_TENSOR
            | Scheme.FP8_CHANNEL
            | Scheme.INT8
            | Scheme.MXFP4
            | Scheme.W4A8
            | Scheme.GGUF
            | Scheme.UNKNOWN
        ):
            return


def _awq(module: Module, part: QuantPart, inputs: int, outputs: tuple[int, ...]) -> Iterator[Refusal]:
    """auto_awq.py: Marlin takes whole groups; else the plain kernel, whose packing also counts outputs in eights."""
    fits_marlin = part.group in MARLIN_GROUPS and not part.symmetric
    if fits_marlin and (part.group == -1 or (part.group or 0) >= module.inputs or inputs % (part.group or 1) == 0):
        return
    group = part.group if part.group is not None and part.group > 0 else module.inputs
    if group and inputs % group:
        yield _cut(module, inputs, group)
    elif sum(outputs) % AWQ_PACK:
        yield Refusal(
            Reason.QUANT_GROUP,
            f"{module.path} has {sum(outputs):,} outputs a GPU, which do not pack into words of {AWQ_PACK}",
            {"outputs": sum(outputs), "pack": AWQ_PACK},
            module.path,
        )


def _group(module: Module, group: int | None, inputs: int) -> Iterator[Refusal]:
    """auto_gptq.py, compressed_tensors_wNa16.py: scales are stored by whole groups of inputs.

    Some kernels do not look while they build; the scales are then cut to whole groups and the answers are wrong.
    """
    if group is None or group <= 0 or (module.split is not Split.ROW and group >= module.inputs):
        return
    if inputs % group:
        yield _cut(module, inputs, group)


def _cut(module: Module, inputs: int, group: int) -> Refusal:
    return Refusal(
        Reason.QUANT_GROUP,
        f"{module.path} has {inputs:,} inputs a GPU, no whole number of quantization groups of {group}",
        {"inputs": inputs, "group": group},
        module.path,
    )


def _block(
    module: Module, part: QuantPart, setting: Setting, inputs: int, outputs: tuple[int, ...]
) -> Iterator[Refusal]:
    """fp8_utils.py::validate_fp8_block_shape."""
    block_out, block_in = part.block or (128, 128)
    split = setting.width > 1 and module.split is not Split.WHOLE
    if split and module.split is Split.ROW and inputs % block_in:
        yield _off_block(module, inputs, block_in, "inputs")
    if len(outputs) > 1 and _forgives_merged(part, setting):
        return
    checked = outputs if split and module.split is not Split.ROW else outputs[:-1]
    size = next((size for size in checked if size % block_out), None)
    if size is not None:
        yield _off_block(module, size, block_out, "outputs")


def _forgives_merged(part: QuantPart, setting: Setting) -> bool:
    """linear.py lets merged matrices of an fp8 checkpoint end inside a block; compressed-tensors has no such rule."""
    return setting.engine is Engine.VLLM and not setting.before(FORGIVES_MERGED) and not part.targets


def _off_block(module: Module, size: int, block: int, side: str) -> Refusal:
    return Refusal(
        Reason.QUANT_GROUP,
        f"{module.path} has {size:,} {side} a GPU, no whole number of FP8 blocks of {block}",
        {"size": size, "block": block},
        module.path,
    )


def _multiple(module: Module, inputs: int, group: int) -> Iterator[Refusal]:
    if inputs % group:
        yield _cut(module, inputs, group)


def _experts(module: Module, part: QuantPart, setting: Setting, width: int) -> Iterator[Refusal]:
    """The experts' own kernels; `width` is what one rank holds of each expert."""
    if part.scheme in (Scheme.AWQ, Scheme.GPTQ):
        if _cannot_halve(module, part, setting, width):
            yield _thin(module, width, part.group or 0, "quantization groups")
    elif part.scheme is Scheme.FP8_BLOCK:
        yield from _expert_blocks(module, part, setting, width)
    else:
        unit, what = _expert_unit(part)
        if unit > 0 and (width % unit or module.inputs % unit):
            yield _thin(module, width, unit, what)


def _expert_unit(part: QuantPart) -> tuple[int, str]:
    """What both sides of an expert must divide by; 0 where nothing has to."""
    if part.scheme is Scheme.PACKED:  # compressed_tensors_moe_wna16.py
        return part.group or 0, "quantization groups"
    if part.scheme is Scheme.MXFP8:  # modelopt.py
        return MX_GROUP, "MXFP8 groups"
    if part.scheme is Scheme.W4A8:  # compressed_tensors_moe_w4a8_fp8.py
        return W4A8_TILE, "kernel tiles"
    return 0, ""


def _cannot_halve(module: Module, part: QuantPart, setting: Setting, width: int) -> bool:
    """Marlin's experts want whole groups; else moe_wna16 halves the group until it divides both sides, down to 32."""
    group = part.group
    if group is None or group <= 0:
        return False
    whole = module.inputs % 128 == 0 and width % group == 0 and group in MARLIN_GROUPS
    if whole:
        return False
    if part.scheme is Scheme.GPTQ and setting.before(GPTQ_EXPERTS_LOAD) and width % group:
        return True
    while width % group or module.inputs % group:
        group //= 2
        if group < SMALLEST_HALVED:
            return True
    return False


def _expert_blocks(module: Module, part: QuantPart, setting: Setting, width: int) -> Iterator[Refusal]:
    """fused_moe/oracle/fp8.py::refine_fp8_moe_block_shape, then fp8_utils.py::validate_fp8_block_shape_moe."""
    block_out, block_in = part.block or (128, 128)
    if width % block_out == 0 and (setting.width == 1 or width % block_in == 0):
        return
    refines = setting.engine is Engine.VLLM and not setting.before(REFINED_BLOCKS) and not part.targets
    if setting.capability is not None and setting.capability < FP8_CAPABILITY:
        refines = False
    if refines and gcd(block_out, block_in, width, module.inputs) >= SMALLEST_REFINED:
        return
    yield _thin(module, width, block_out, "FP8 blocks")


def _thin(module: Module, width: int, unit: int, what: str) -> Refusal:
    return Refusal(
        Reason.QUANT_GROUP,
        f"the experts have a width of {width:,} a GPU, which does not go with {what} of {unit}",
        {"width": width, "unit": unit},
        module.path,
    )


def _tile(
    module: Module, part: QuantPart, setting: Setting, inputs: int, outputs: tuple[int, ...]
) -> Iterator[Refusal]:
    """Marlin's tiles of 128 inputs and 64 outputs: a warning, for another kernel may be picked instead."""
    strict = setting.engine is Engine.SGLANG or setting.before(PADDED_TILES)
    if not strict or (part.group and part.group > 0 and inputs % part.group):
        return
    if inputs % 128 == 0 and sum(outputs) % 64 == 0:
        return
    refused = part.scheme is Scheme.GPTQ and setting.before(TILE_OR_NOTHING)
    yield Refusal(
        Reason.QUANT_GROUP,
        f"{module.path} is {inputs:,} x {sum(outputs):,} a GPU; Marlin's tiles want multiples of 128 x 64",
        {"inputs": inputs, "outputs": sum(outputs)},
        module.path,
        Severity.ERROR if refused else Severity.WARNING,
    )
