"""What an engine holds on a GPU beside weights and cache, out of a table of published and observed starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Task
from reconciler.sizing.estimate import NOTHING, Estimate
from reconciler.sizing.host_memory import beside_weights, processes_row
from reconciler.sizing.overhead_rows import Place, batch_row, evidence, row, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from reconciler.domain.shape import Shape
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.memory_ask import Card, MemoryAsk

_MIB = 2**20
_BYTES_BY_DTYPE = {"float32": 4, "float": 4}
"""Of activations, where the profile asks for it; engines compute in 16 bit otherwise, whatever the checkpoint says."""
_GATED = 3
"""Values a gated feed-forward part of width 1 keeps for a token: gate, up and their product."""
_SPLIT_PROMPT = 32768
"""vLLM before 0.8 cut prompts into pieces only where a request may be longer than this."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The most that one step computes: what the profile says, else the engine version's default for this card."""

    tokens: int
    sequences: int


@dataclass(frozen=True, slots=True)
class Overheads:
    """Beside weights and cache on one GPU, bytes."""

    activations: Estimate
    """The peak of one full step, sampling included."""
    graphs: Estimate
    """CUDA graphs; nothing where they are switched off."""
    runtime: Estimate
    """What the engine allocates past PyTorch while it loads and warms up; on CPUs its processes and copies."""
    startup: Estimate
    """What is gone before the engine measures the card: the CUDA context and the first communicators."""
    basis: str
    doubts: tuple[str, ...] = ()


def batch(ask: MemoryAsk, card: Card | None, rules: CountingRules) -> Batch:
    """Tokens and sequences of one step."""
    found = batch_row(rules, card)
    ranks = ask.tensor * ask.pipeline if found.get("per_rank", False) else 1
    sequences = ask.concurrency or found["sequences"] * ranks
    tokens = found["tokens"] * ranks
    whole = found.get("whole_prompts", False) and (ask.context or 0) <= _SPLIT_PROMPT
    if whole or ask.task in (Task.EMBED, Task.RERANK):
        tokens = max(tokens, ask.context or 0)  # such prompts are never cut into pieces
    tokens = ask.batch_tokens or tokens
    return Batch(tokens, min(sequences, tokens))


def overheads(
    shape: Shape, ask: MemoryAsk, card: Card | None, rules: CountingRules, *, vocabulary: int = 0
) -> Overheads:
    """What one GPU holds beside weights and cache; on CPUs the host RAM of a node, where a replica has one rank.

    `vocabulary` are the bytes of embedding and output head there: on CPUs they are held twice.
    """
    place = Place.of(shape, card, rules)
    activations = _activations(shape, ask, batch(ask, card, rules), place)
    if card is None:
        basis = _basis(place, processes_row(rules))
        return Overheads(activations, NOTHING, beside_weights(rules, 1, vocabulary), NOTHING, *basis)
    runtime = _mib(row("runtime", place))
    startup = _mib(row("startup", place))
    if ask.tensor * ask.data * ask.pipeline > 1:  # ranks talk to each other
        startup += _mib(row("startup_communicators", place))
    if ask.tensor * ask.data > 1:
        runtime += _mib(row("communicators", place))
    graphs = NOTHING if ask.eager else _graphs(shape, ask, place)
    return Overheads(activations, graphs, runtime, startup, *_basis(place, row("runtime", place)))


def _activations(shape: Shape, ask: MemoryAsk, step: Batch, place: Place) -> Estimate:
    """The hidden states of a step and, whichever is larger, the values inside a layer or those of sampling.

    Inside a layer a token needs so many times the feed-forward width and the hidden size. Sampling needs logits of the
    compute type and further bytes for each word of the vocabulary and each sequence, and no rank shares them; some
    versions keep counts of all words besides.
    """
    size = _BYTES_BY_DTYPE.get(ask.dtype or "", 2)
    body, sampler = row("body", place), row("sampler", place)
    hidden, width = step.tokens * size * shape.hidden, step.tokens * size * _width(shape, ask)
    samples = not shape.encoder and ask.task not in (Task.EMBED, Task.RERANK)
    words = shape.vocabulary * step.sequences * samples
    kept = words * sampler.get("kept", 0)
    found = Estimate(
        *(
            int(_MIB * constant + kept + hidden + max(inside * width + beside * hidden, words * (size + further)))
            for constant, inside, beside, further in zip(
                body["mib"], body["per_width"], body["per_hidden"], sampler["bytes"], strict=True
            )
        )
    )
    if not shape.towers:
        return found
    return found + _mib(row("vision", place)) + Estimate(0, hidden, hidden)  # what the tower gave is kept for the step


def _width(shape: Shape, ask: MemoryAsk) -> float:
    """The widest feed-forward part that a token passes on one rank, experts as many as are active."""
    widest = 0.0
    for layer in shape.unlike:
        dense = (layer.dense or 0) / ask.tensor
        experts = 0.0
        if layer.experts is not None:
            split = 1 if ask.expert_parallel else ask.tensor
            inner, inputs = layer.experts.width / split, layer.experts.hidden or shape.hidden
            # Kernels keep for every active expert of a token its inner values, and gate and up or the output in turns.
            experts = layer.experts.active * (inner + max(2 * inner, inputs)) / _GATED
            experts += layer.experts.shared_width / ask.tensor
        widest = max(widest, dense, experts)
    return widest


def _graphs(shape: Shape, ask: MemoryAsk, place: Place) -> Estimate:
    found = row("graphs", place)
    layers = -(-len(shape.layers) // ask.pipeline)
    return _mib(found) + Estimate(*(int(each * layers * _MIB) for each in found["mib_per_layer"]))


def _mib(found: Mapping[str, Any]) -> Estimate:
    figures: Sequence[float] = found["mib"]
    return Estimate(*(int(each * _MIB) for each in figures))


def _basis(place: Place, found: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Whence the figures are, for people, and what is doubtful about that."""
    said = f"{place.engine} {span(found)}, {', '.join(sorted(place.families))}: {evidence(found)}"
    if place.inside(found):
        return said, ()
    return said, (f"{place.engine} {place.version} was not read: overheads are those of {span(found)}",)
