"""One question to llama.cpp's own memory report, and our answer to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from reconciler.domain.shape import Shape
from reconciler.sizing.gguf_shape import read_gguf
from reconciler.sizing.llamacpp_cache import Cells, cells_of, layer_bytes
from reconciler.sizing.llamacpp_compute import card_buffer, host_buffer, model_of
from reconciler.sizing.llamacpp_inputs import ComputeAsk
from reconciler.sizing.llamacpp_weights import card_weights, cards_of, weights_of, whole
from reconciler.sizing.memory_ask import Stored
from reconciler.weights.disk import DiskFiles
from reconciler.weights.files import Stream
from reconciler.weights.gguf_header import read_header
from reconciler.weights.meter import Meter
from reconciler.weights.tensor_names import gguf_place
from reconciler.weights.tensor_runs import tensor_runs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Case:
    """How a model would be run."""

    model: str
    context: int
    slots: int = 1
    cards: int = 0
    key_type: str = "f16"
    value_type: str = "f16"
    flash: bool = True
    batch: int = 512
    full_windows: bool = False

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From a row of the table, which leaves out what is usual."""
        return cls(**{key: value for key, value in row.items() if key != "mib"})


def shape_and_weights(path: Path) -> tuple[Shape, Stored]:
    """What a lock would have of this file, read as the product reads it."""
    files = DiskFiles(path.parent, path.name, named=path.name, version=None, meter=Meter())
    header = read_header(Stream(files, path.name))
    shape = read_gguf(dict(header.metadata))
    assert isinstance(shape, Shape), shape
    return shape, Stored(tensors=tensor_runs(header.tensors, gguf_place))


def ours(path: Path, case: Case) -> list[tuple[float, float, float]]:
    """Model, context and compute in MiB of every card, then of the host."""
    shape, stored = shape_and_weights(path)
    weights, model = weights_of(shape, stored), model_of(shape)
    cells = Cells(
        context=cells_of(case.context, case.slots, unified=False),
        slots=case.slots,
        unified=False,
        batch=case.batch,
        key_type=case.key_type,
        value_type=case.value_type,
        full_windows=case.full_windows,
        flash=case.flash,
    )
    # The program asks for logits of every token; a server does so for one a slot.
    ask = ComputeAsk(cells, case.batch, case.cards)
    every = tuple(range(len(shape.layers)))
    if not case.cards:
        held = sum(layer_bytes(shape, layer, cells) for layer in shape.layers)
        buffer = card_buffer(model, ask, every, first=True, last=True)
        return [(whole(weights, shape) / MIB, held / MIB, buffer / MIB)]
    found = []
    for number, layers in enumerate(cards_of(weights, shape, case.cards)):
        last = number == case.cards - 1
        held = sum(layer_bytes(shape, shape.layers[index], cells) for index in layers)
        buffer = card_buffer(model, ask, layers, first=number == 0, last=last)
        found.append((card_weights(weights, layers, head=last) / MIB, held / MIB, buffer / MIB))
    return [*found, (weights.embedding / MIB, 0.0, host_buffer(model, ask) / MIB)]
