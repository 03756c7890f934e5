"""Host RAM of a llama.cpp that runs on GPUs: the embedding, the graph's inputs, and states kept for going back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.tables import table
from reconciler.sizing.estimate import Estimate
from reconciler.sizing.fit_remarks import gib
from reconciler.sizing.llamacpp_cache import layer_token_bytes, state_bytes
from reconciler.sizing.llamacpp_compute import host_buffer
from reconciler.sizing.llamacpp_inputs import ComputeAsk
from reconciler.sizing.sized import MemoryReason, Remark

if TYPE_CHECKING:
    from reconciler.domain.shape import Shape
    from reconciler.sizing.llamacpp_cache import Cells
    from reconciler.sizing.llamacpp_compute import Model
    from reconciler.sizing.llamacpp_weights import Weights
    from reconciler.sizing.memory_ask import MemoryAsk

_MIB = 2**20


def host_need(model: Model, weights: Weights, cells: Cells, ask: MemoryAsk) -> Estimate:
    """Host RAM beside the GPUs, bytes. Pages of the file that are on the cards by then can be taken back."""
    fixed = weights.embedding + host_buffer(model, ComputeAsk(cells, cells.slots, max(1, ask.gpus)))
    low, likely, high = (each * _MIB for each in table("llamacpp_overheads")["host"]["mib"])
    row = table("llamacpp_overheads")["checkpoints"]
    usual = min(row["most"], 2 + cells.context // row["spacing"])
    one = sum(checkpoint_bytes(model.shape, cells))
    return Estimate(fixed + low, fixed + likely + one * cells.slots, fixed + high + one * cells.slots * usual)


def checkpoint_bytes(shape: Shape, cells: Cells) -> tuple[int, ...]:
    """By layer what one checkpoint copies: windows and recurrent state of one slot; whole caches need none."""
    windows = (layer.attention.window if layer.attention is not None else None for layer in shape.layers)
    return tuple(
        state_bytes(layer) + (layer_token_bytes(shape, layer, cells) * min(window, cells.context) if window else 0)
        for layer, window in zip(shape.layers, windows, strict=True)
    )


def host_remark(model: Model, weights: Weights, cells: Cells, ask: MemoryAsk) -> Remark | None:
    """Whether the reserved host RAM holds it."""
    reserved = ask.host_bytes or 0
    need = host_need(model, weights, cells, ask)
    if need.high <= reserved:
        return None
    band = "" if need.low > reserved else f" (it may be {gib(need.low)} to {gib(need.high)})"
    said = f"needs {gib(need.likely)} of {gib(reserved)} GiB of host RAM beside the GPUs{band}"
    return Remark(MemoryReason.HOST_RAM, said, certain=need.low > reserved)
