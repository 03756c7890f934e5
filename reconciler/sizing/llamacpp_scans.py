"""The results that llama.cpp's graph makes for recurrent layers: scans, delta rules and short convolutions.

After llama.cpp b11434, src/models/mamba-base.cpp, delta-net-base.cpp, qwen3next.cpp and lfm2.cpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.shape import Recurrence
from reconciler.sizing.llamacpp_writer import FLOAT, Writer

if TYPE_CHECKING:
    from reconciler.domain.shape import Recurrent, Shape
    from reconciler.sizing.buffer_tape import Tape
    from reconciler.sizing.llamacpp_writer import Batch, Inputs, Place


class ScanGraph(Writer):
    """Writes the recurrent mixers of one model onto a tape."""

    __slots__ = ("_early",)

    def __init__(self, shape: Shape, batch: Batch, inputs: Inputs, tape: Tape, traits: frozenset[str]) -> None:
        super().__init__(shape, batch, inputs, tape, traits)
        self._early: int | None = None
        """The convolution's state of a scan to come."""

    def fetch(self, recurrent: Recurrent) -> None:
        """Gather the convolution's state of a scan, once: before its norm, or already after the scan before it."""
        if projected(recurrent) and self._early is None:
            self._early = self._states((recurrent.convolution - 1) * _mixed(recurrent))

    def mix(self, recurrent: Recurrent, norm: int, place: Place) -> int:
        """The mixer of one recurrent layer."""
        match recurrent.kind:
            case Recurrence.MAMBA1 | Recurrence.MAMBA2:
                return self._scan(recurrent, norm, place)
            case Recurrence.GATED_DELTA | Recurrence.KIMI_DELTA | Recurrence.LIGHTNING:
                return self._delta(recurrent, norm)
            case Recurrence.SHORT_CONVOLUTION:
                return self._short_convolution(recurrent, norm)

    def _states(self, size: int) -> int:
        """States of all sequences, gathered from the cache."""
        return self.put(size, self.inputs.states, rows=self.batch.sequences)

    def _scan(self, recurrent: Recurrent, norm: int, place: Place) -> int:
        """Mamba 1 projects its steps from the convolution's values, Mamba 2 has them in its one projection."""
        inner, state, taps = recurrent.inner, recurrent.state, recurrent.convolution - 1
        self.fetch(recurrent)
        conv, self._early = self._early, None
        assert conv is not None  # noqa: S101  # just fetched
        both = self.put(projected(recurrent), norm)
        joined = self._joined(_mixed(recurrent), taps, conv, both)
        values = self.put(_mixed(recurrent), joined)
        if recurrent.kind is Recurrence.MAMBA1:
            small = self.put(recurrent.rank + 2 * state, values)
            steps = self.put(inner, self.put(recurrent.rank, small))
            scan = self._scanned(inner, inner * state, values, steps, small)
        else:
            scan = self._scanned(inner, inner * state, values, self.put(recurrent.heads, both))
        if place.following is not None:
            self.fetch(place.following)
        result = self._gated(inner, both, values, scan, place.fetched)
        if recurrent.kind is Recurrence.MAMBA2:
            result = self.put(inner, result)  # the norm over groups
        return self.put(self.shape.hidden, result)

    def _joined(self, width: int, taps: int, conv: int, source: int) -> int:
        size = (self.batch.tokens + taps * self.batch.sequences) * width * FLOAT
        joined = self.tape.put(size, conv, source)
        self.tape.use(joined)
        return joined

    def _scanned(self, inner: int, states: int, *reads: int) -> int:
        """The scan reads states where they lie; those of slots that are not in the batch are copied after it."""
        size = (self.batch.tokens * inner + self.batch.sequences * states) * FLOAT
        scan = self.tape.put(size, *reads)
        self.tape.use(self.put(states, self.inputs.states, rows=self.batch.sequences - 1))
        self.tape.use(scan)
        return scan

    def _gated(self, inner: int, both: int, values: int, scan: int, fetched: int | None) -> int:
        """The gate's copy, the direct path added to the scan, and their product."""
        if fetched is None:
            gate = self.put(inner, both)
        else:
            gate = fetched
            self.tape.use(both)
        result = self.put(inner, self.put(inner, values), in_place=True)
        self.tape.use(scan)
        return self.put(inner, gate, result)

    def _delta(self, recurrent: Recurrent, norm: int) -> int:
        inner, taps = recurrent.inner, recurrent.convolution - 1
        keys = recurrent.key_heads * recurrent.key_dim or recurrent.groups * recurrent.state
        mixed, states = inner + 2 * keys, inner * recurrent.state
        conv = self._states(taps * mixed)
        joined = self._joined(mixed, taps, conv, self.put(mixed, norm))
        held = self._states(states)
        values = self.put(mixed, joined)
        query = self._widened(self.put(keys, values), keys, inner)
        key = self._widened(self.put(keys, values), keys, inner)
        both = self.put(2 * recurrent.heads, norm)
        alpha, beta = self.put(recurrent.heads, both), self.put(recurrent.heads, both)
        size = (self.batch.tokens * inner + self.batch.sequences * states) * FLOAT
        result = self.tape.put(size, query, key, values, alpha, beta, held)
        self.tape.use(result)
        normed = self.put(inner, result)
        gate = self.put(inner, self.put(inner, norm))
        return self.put(self.shape.hidden, self.put(inner, normed, gate, in_place=True))

    def _widened(self, source: int, keys: int, inner: int) -> int:
        """Heads of keys repeated to the number of heads of values."""
        return source if keys == inner else self.put(inner, source)

    def _short_convolution(self, recurrent: Recurrent, norm: int) -> int:
        inner, taps = recurrent.inner, recurrent.convolution - 1
        conv = self._states(taps * inner)
        three = self.put(3 * inner, norm)
        gated = self.put(inner, three)
        joined = self._joined(inner, taps, conv, gated)
        mixed = self.put(inner, joined)
        return self.put(self.shape.hidden, self.put(inner, three, mixed))


def _mixed(recurrent: Recurrent) -> int:
    """Width of what a scan's convolution goes over."""
    if recurrent.kind is Recurrence.MAMBA1:
        return recurrent.inner
    return recurrent.inner + 2 * recurrent.groups * recurrent.state


def projected(recurrent: Recurrent) -> int:
    """Width of the one projection into a scan, gate and all; 0 where there is none."""
    match recurrent.kind:
        case Recurrence.MAMBA1:
            return 2 * recurrent.inner
        case Recurrence.MAMBA2:
            return 2 * recurrent.inner + 2 * recurrent.groups * recurrent.state + recurrent.heads
        case _:
            return 0
