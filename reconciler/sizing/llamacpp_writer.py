"""What llama.cpp's graph of a micro-batch is given, and the tape that its results are written onto.

All results are in 32 bit. Norms, biases and activations work in place and need no memory of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.domain.shape import Recurrent, Shape
    from reconciler.sizing.buffer_tape import Tape

FLOAT = 4
"""Bytes of a 32-bit number."""
HALF = 2


@dataclass(frozen=True, slots=True)
class Inputs:
    """Numbers on the tape of what the graph is given."""

    stream: int
    """The embedding, or what the card before hands over."""
    positions: int
    cells: dict[int | None, int]
    """Which cells the batch goes into, by window."""
    masks: dict[int | None, int]
    states: int
    wanted: int
    """Which tokens' logits are wanted."""
    normed: int | None = None
    """The stream after the first layer's norm, where another card worked that out."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch as the graph sees it."""

    tokens: int
    outputs: int
    """Tokens whose logits are wanted."""
    sequences: int
    flash: bool
    cells: dict[int | None, int]
    """Cells that one token may look at, by window: of its own slot, or of the pool."""
    rotated: tuple[bool, bool]
    """Whether K and V are turned before they are quantized."""
    converted: int = 0
    """Bytes beside each fused attention's result: K and V of a quantized cache in 16 bit (CUDA)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a layer stands."""

    normed: int | None = None
    """The stream after its first norm, where another card worked that out."""
    fetched: int | None = None
    """The copy of a scan's gate, where the next card makes it."""
    following: Recurrent | None = None
    """The scan to come, whose state is fetched before this layer's is finished."""
    last: bool = False


class Writer:
    """Puts results of a micro-batch onto the tape: a width for each of its tokens."""

    __slots__ = ("batch", "inputs", "shape", "tape", "traits")

    def __init__(self, shape: Shape, batch: Batch, inputs: Inputs, tape: Tape, traits: frozenset[str]) -> None:
        self.shape = shape
        self.batch = batch
        self.inputs = inputs
        self.tape = tape
        self.traits = traits

    def put(self, width: int, *reads: int, rows: int | None = None, in_place: bool = False) -> int:
        """A result of `width` numbers for every token, or for `rows` of them."""
        count = self.batch.tokens if rows is None else rows
        return self.tape.put(width * count * FLOAT, *reads, in_place=in_place)

    def add(self, first: int, second: int, rows: int | None = None) -> int:
        """A sum, in the memory of the first where nothing else reads that."""
        return self.put(self.shape.hidden, first, second, rows=rows, in_place=True)

    def gather(self, source: int) -> int:
        """The wanted tokens of a result as wide as the stream."""
        return self.put(self.shape.hidden, source, self.inputs.wanted, rows=self.batch.outputs)
