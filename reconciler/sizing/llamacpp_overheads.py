"""llama.cpp's compute buffers as estimates, and what its runtime takes beside them, from the table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Task
from reconciler.domain.tables import table
from reconciler.sizing.estimate import Estimate
from reconciler.sizing.llamacpp_compute import card_buffer
from reconciler.sizing.llamacpp_inputs import ComputeAsk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.shape import Layer, Shape
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.llamacpp_cache import Cells
    from reconciler.sizing.llamacpp_compute import Model
    from reconciler.sizing.memory_ask import MemoryAsk

_MIB = 2**20
_FLOAT = 4
_GRAPH = (0.9, 1.1)
"""The buffers are exact for the graphs that were read; others differ in an operation or two."""


def compute(
    model: Model, cells: Cells, ask: MemoryAsk, layers: tuple[int, ...], number: int | None, *, limited: bool
) -> Estimate:
    """The compute buffer of card `number` (None: of the host, with all layers), and temporaries of kernels."""
    cards = 0 if number is None else ask.gpus
    outputs = cells.slots if limited else cells.batch
    asked = ComputeAsk(cells, outputs, cards, converts=cards > 0)
    size = card_buffer(model, asked, layers, first=not number, last=number is None or number == cards - 1)
    found = Estimate.exactly(size).within(*_GRAPH)
    if number is None:
        return found
    shape = model.shape
    widest = max((_widest(shape, each) for each in {shape.layers[index] for index in layers}), default=shape.hidden)
    size = widest * asked.tokens * _FLOAT
    return found + Estimate(*(int(size * each) for each in table("llamacpp_overheads")["scratch"]["widths"]))


def runtime(ask: MemoryAsk, *, first: bool) -> Estimate:
    """Context and libraries; the first card also works on images."""
    if not ask.gpus:
        return _mib("host_cpu")
    found = _mib("runtime")
    return found + _mib("projector") if first and ask.projector is not None else found


def limits_outputs(rules: CountingRules, ask: MemoryAsk) -> bool:
    """Whether the server computes logits of one token a slot only; embeddings and scores take those of all."""
    if ask.task in (Task.EMBED, Task.RERANK):
        return False
    builds = re.findall(r"\d+", rules.version)
    return not builds or int(builds[-1]) >= table("llamacpp_overheads")["limited_outputs_from"]["build"]


def _mib(row: str) -> Estimate:
    low, likely, high = table("llamacpp_overheads")[row]["mib"]
    return Estimate(low * _MIB, likely * _MIB, high * _MIB)


def _widest(shape: Shape, layer: Layer) -> int:
    widths: Sequence[int] = (
        shape.hidden,
        layer.dense or 0,
        layer.experts.width * layer.experts.active if layer.experts is not None else 0,
        layer.attention.heads * layer.attention.head_dim if layer.attention is not None else 0,
        layer.recurrent.inner * 2 if layer.recurrent is not None else 0,
    )
    return max(widths)
