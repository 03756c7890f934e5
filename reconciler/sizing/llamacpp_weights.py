"""Where llama.cpp puts the weights: whole layers on cards, the embedding in host RAM, the output head on the last card.

After llama.cpp b11434, src/llama-model.cpp. Layers, and the output head as one more, are cut into runs by equal shares,
for the launch names equal parts. A model without an output head of its own gets a copy of the embedding on the last
card. Layers that predict further tokens stay in the file. Without a lock's tensors, the bytes of all weights are
spread as the shape's matrices say.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from reconciler.domain.tables import table
from reconciler.sizing.layers import MOST_LAYERS
from reconciler.sizing.module import Part, Split
from reconciler.sizing.modules import language_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.lock import TensorRun
    from reconciler.domain.shape import Shape
    from reconciler.sizing.memory_ask import Stored
    from reconciler.sizing.module import Module

SIXTEEN_BIT = 2
"""Bytes of an element where nothing says how weights are stored."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of one model by where they belong."""

    layers: tuple[int, ...]
    """Of each layer in the file, those that predict further tokens included."""
    embedding: int
    """What is looked up by token; in host RAM."""
    head: int
    """The output head with the last norm; a copy of the embedding where they are one."""
    shared: bool
    """The head is the embedding: counted once where both lie in host RAM."""
    everywhere: int = 0
    """Small tables that every card has."""
    known: bool = True
    """False where the bytes of the whole are a guess."""


def weights_of(shape: Shape, stored: Stored) -> Weights:
    """The weights of the model, from the lock's tensors, else from its bytes, else from the shape."""
    if stored.tensors:
        return _of_tensors(shape, stored.tensors)
    return _of_shape(shape, stored.weight_bytes)


def cards_of(weights: Weights, shape: Shape, cards: int) -> tuple[tuple[int, ...], ...]:
    """The layers of each card."""
    held: list[list[int]] = [[] for _ in range(cards)]
    for index in range(len(shape.layers)):
        held[index * cards // (len(weights.layers) + 1)].append(index)
    return tuple(tuple(each) for each in held)


def card_weights(weights: Weights, layers: tuple[int, ...], *, head: bool) -> int:
    """Bytes on one card."""
    return sum(weights.layers[index] for index in layers) + weights.everywhere + (weights.head if head else 0)


def whole(weights: Weights, shape: Shape) -> int:
    """Bytes where all of it lies in host RAM."""
    head = 0 if weights.shared else weights.head
    return sum(weights.layers[: len(shape.layers)]) + weights.embedding + head + weights.everywhere


def _of_tensors(shape: Shape, tensors: tuple[TensorRun, ...]) -> Weights:
    outside: defaultdict[str, int] = defaultdict(int)
    looked_up = 0
    for run in tensors:
        if run.layers is None:
            outside[run.group] += run.bytes
            looked_up += _looked_up(shape, run) if run.group == "embedding" else 0
    layers = _by_layer(tensors)
    shared = not outside["output_head"] and not shape.encoder
    return Weights(
        layers=layers + (0,) * (len(shape.layers) - len(layers)),
        embedding=outside["embedding"],
        head=outside["output_head"] + outside["norms"] + (looked_up if shared else 0),
        shared=shared,
        everywhere=outside["other"],
    )


def _by_layer(tensors: tuple[TensorRun, ...]) -> tuple[int, ...]:
    """Bytes of each layer that a run names, in time that runs of absurd length do not change.

    Layers that no model has are left out, with their part of the run.
    """
    steps: defaultdict[int, float] = defaultdict(float)
    count = 0
    for run in tensors:
        if run.layers is None:
            continue
        first, last = run.layers
        if first <= last and first < MOST_LAYERS:
            each = run.bytes / (last - first + 1)
            steps[first] += each
            steps[last + 1] -= each
            count = max(count, min(last + 1, MOST_LAYERS))
    return tuple(round(each) for each in accumulate(steps[layer] for layer in range(count)))


def _looked_up(shape: Shape, run: TensorRun) -> int:
    """Of an embedding row the table of tokens: others lie beside it (per layer, positions) and are never a head."""
    element = table("llamacpp_models")["storage"].get(run.dtype.lower())
    if element is None or not shape.vocabulary:
        return run.bytes
    elements, block_bytes = element
    return min(run.bytes, int(shape.hidden * shape.vocabulary * block_bytes // elements))


def _of_shape(shape: Shape, weight_bytes: int | None) -> Weights:
    elements = [0] * len(shape.layers)
    vocabulary = shape.hidden * shape.vocabulary
    for module in language_modules(shape):
        if module.part is Part.VOCABULARY:
            continue
        for layer in module.layers:
            elements[layer] += _elements(module, shape, layer)
    total = sum(elements) + vocabulary * (1 if shape.tied else 2)
    scale = SIXTEEN_BIT if weight_bytes is None or not total else weight_bytes / total
    embedding = round(vocabulary * scale)
    return Weights(
        layers=tuple(round(each * scale) for each in elements),
        embedding=embedding,
        head=embedding,
        shared=shape.tied,
        known=weight_bytes is not None,
    )


def _elements(module: Module, shape: Shape, layer: int) -> int:
    if module.split is Split.QKV:
        keys = module.kv_heads * (module.head_dim + module.value_dim)
        return module.inputs * (module.heads * module.head_dim + keys)
    if module.split is Split.EXPERTS:
        experts = shape.layers[layer].experts
        count = experts.count if experts is not None else 1
        return module.inputs * sum(module.outputs) * count * (3 if shape.gated else 2)
    return module.inputs * sum(_positive(module.outputs))


def _positive(outputs: tuple[int, ...]) -> Iterator[int]:
    return (each for each in outputs if each > 0)
