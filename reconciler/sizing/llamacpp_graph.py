"""The results that llama.cpp's graph of one layer makes, in the order in which it makes them.

One function a kind of mixer or feed-forward part, after llama.cpp b11434 (src/llama-graph.cpp, src/models/). Writes
into the cache need no memory of their own; the cache is elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.shape import Recurrence
from reconciler.sizing.llamacpp_scans import ScanGraph
from reconciler.sizing.llamacpp_writer import FLOAT, HALF, Writer

if TYPE_CHECKING:
    from reconciler.domain.shape import Attention, Experts, Layer, Shape
    from reconciler.sizing.buffer_tape import Tape
    from reconciler.sizing.llamacpp_writer import Batch, Inputs, Place


class LayerGraph(Writer):
    """Writes layers of one model onto a tape."""

    __slots__ = ("scans",)

    def __init__(self, shape: Shape, batch: Batch, inputs: Inputs, tape: Tape, traits: frozenset[str]) -> None:
        super().__init__(shape, batch, inputs, tape, traits)
        self.scans = ScanGraph(shape, batch, inputs, tape, traits)

    def layer(self, layer: Layer, stream: int, place: Place) -> int:
        """One layer over the residual stream; of the last one only the wanted tokens go on after its mixer."""
        late = "late_outputs" in self.traits
        parallel = "parallel" in self.traits
        if parallel and layer.attention is not None and layer.dense:
            return self._parallel(layer.attention, layer.dense, stream, place)
        mixed = self._mixer(layer, stream, place)
        if mixed is not None:
            if place.last and not late:
                mixed, stream = self.gather(mixed), self.gather(stream)
            stream = self.add(stream, mixed) if self._viewed(layer) else self.add(mixed, stream)
        if layer.dense or layer.experts is not None:
            narrow = self.batch.outputs if place.last and not late and mixed is not None else self.batch.tokens
            stream = self._feed_forward(layer, stream, narrow)
        if place.last and mixed is None and not late:
            stream = self.gather(stream)
        return stream

    def _viewed(self, layer: Layer) -> bool:
        """Whether the mixer's result is a view, whose memory a sum does not take: then it takes the stream's."""
        if "residual_before_mixer" in self.traits:
            return True
        recurrent = layer.recurrent
        if recurrent is None or layer.attention is not None:
            return False
        return recurrent.kind is not Recurrence.MAMBA2

    def hand_over(self, stream: int) -> None:
        """What the next card is given: the stream and its norm."""
        normed = self._norm(stream)
        self.tape.use(normed)
        self.tape.use(stream)

    def head(self, stream: int, normed: int | None, *, gathered: bool) -> None:
        """The last norm and the logits."""
        rows, source = self.batch.outputs if gathered else None, stream if normed is None else normed
        norm = self.put(self.shape.hidden, source, rows=rows, in_place=True)
        if not gathered:
            norm = self.gather(norm)
        self.put(self.shape.vocabulary, norm, rows=self.batch.outputs)

    def _norm(self, source: int, rows: int | None = None, normed: int | None = None) -> int:
        return self.put(self.shape.hidden, source if normed is None else normed, rows=rows, in_place=normed is not None)

    def _parallel(self, attention: Attention, width: int, stream: int, place: Place) -> int:
        """Attention and feed-forward part read the same norm; attention's projection comes last."""
        norm = self._norm(stream, normed=place.normed)
        attended = self._attend(attention, norm)
        rows = None
        if place.last:
            norm, rows = self.gather(norm), self.batch.outputs
        fed = self._dense(width, norm, rows)
        fed = self.add(fed, self.gather(stream) if place.last else stream, rows)
        projected = self.put(self.shape.hidden, attended)
        return self.add(fed, self.gather(projected) if place.last else projected, rows)

    def _mixer(self, layer: Layer, stream: int, place: Place) -> int | None:
        attention, recurrent = layer.attention, layer.recurrent
        if attention is None and recurrent is None:
            return None
        if recurrent is not None:
            self.scans.fetch(recurrent)
        norm = self._norm(stream, normed=place.normed)
        mixed = None if attention is None else self.put(self.shape.hidden, self._attend(attention, norm))
        if recurrent is not None:
            flowed = self.scans.mix(recurrent, norm, place)
            mixed = flowed if mixed is None else self.add(mixed, flowed)
        return mixed

    def _attend(self, attention: Attention, norm: int) -> int:
        """What attention gives, before the projection back."""
        if attention.latent is not None and "plain_latent" not in self.traits:
            return self._latent(attention, norm)
        queries, values = attention.heads * attention.head_dim, attention.heads * attention.value_dim
        gate: int | None = None
        key: int | None = None
        value: int | None = None
        keys, wide = attention.kv_heads * attention.head_dim, attention.kv_heads * attention.value_dim
        if "fused_qkv" in self.traits:
            value = self.put(queries + keys + wide, norm)
            query, key = self.put(queries, value), self.put(keys, value)
        else:
            if "gated_query" in self.traits:
                gate = self.put(2 * queries, norm)
                query = self.put(queries, gate)
            else:
                query = self._placed(self.put(queries, norm), queries)
            query = self._turned(query, queries, 0)
            if not attention.shares_cache:
                value = self._turned(self.put(wide, norm), wide, 1)
                key = self._turned(self._placed(self.put(keys, norm), keys), keys, 0)
        for kept in (key, value):
            if kept is not None:
                self.tape.use(kept, self.inputs.cells[attention.window])
        result = self._scores(attention, query, values)
        if gate is not None:
            gate = self.put(values, gate)
            result = self.put(values, result, gate, in_place=True)
        return result

    def _placed(self, source: int, width: int) -> int:
        """Positions go into a copy: what they are put into is a view of the projection."""
        return source if "no_positions" in self.traits else self.put(width, source, self.inputs.positions)

    def _turned(self, source: int, width: int, side: int) -> int:
        if not self.batch.rotated[side]:
            return source
        return self.put(width, source)

    def _scores(self, attention: Attention, query: int, values: int) -> int:
        mask = self.inputs.masks[attention.window]
        if self.batch.flash:
            size = values * self.batch.tokens * FLOAT + self.batch.converted
            return self.tape.put(size, query, mask)
        scores = self.put(attention.heads * self.batch.cells[attention.window], query)
        scores = self.put(attention.heads * self.batch.cells[attention.window], scores, mask, in_place=True)
        if attention.latent is not None and "plain_latent" not in self.traits:
            turned = attention.latent.kv_rank * self.batch.cells[attention.window] * self.batch.sequences * HALF
            return self.put(values, self.put(values, scores, self.tape.put(turned)))
        return self.put(values, self.put(values, scores))

    def _latent(self, attention: Attention, norm: int) -> int:
        """With the up projections of keys and values folded into queries and results: one head of keys."""
        latent = attention.latent
        assert latent is not None  # noqa: S101  # the caller asked
        heads, narrow = attention.heads, latent.kv_rank + latent.rope_dim
        source = self.put(latent.query_rank, norm) if latent.query_rank else norm
        query = self.put(heads * (latent.nope_dim + latent.rope_dim), source)
        folded = self.put(heads * latent.kv_rank, query)
        turned = self.put(heads * latent.rope_dim, query, self.inputs.positions)
        joined = self.put(heads * narrow, folded, turned)
        both = self.put(narrow, norm)
        value = self.put(latent.kv_rank, both)
        key = self.put(narrow, value, self.put(latent.rope_dim, both, self.inputs.positions))
        self.tape.use(key, self.inputs.cells[attention.window])
        result = self._scores(attention, joined, heads * latent.kv_rank)
        unfolded = self.put(heads * latent.value_dim, result)
        return self.put(heads * latent.value_dim, unfolded)

    def _feed_forward(self, layer: Layer, stream: int, rows: int) -> int:
        norm = self._norm(stream, rows)
        if layer.experts is not None:
            fed = self._experts(layer.experts, norm, rows)
        else:
            fed = self._dense(layer.dense or 0, norm, rows)
        if "residual_before_feed_forward" in self.traits:
            return self.add(stream, fed, rows)
        return self.add(fed, stream, rows)

    def _dense(self, width: int, norm: int, rows: int | None) -> int:
        if "fused_gate" in self.traits:
            active = self.put(width, self.put(2 * width, norm, rows=rows), rows=rows)
        elif self.shape.gated:
            gate, up = self.put(width, norm, rows=rows), self.put(width, norm, rows=rows)
            active = self.put(width, gate, up, rows=rows)
        else:
            active = self.put(width, norm, rows=rows)
        return self.put(self.shape.hidden, active, rows=rows)

    def _experts(self, experts: Experts, norm: int, rows: int) -> int:
        """The router, then the chosen experts of all tokens at once, then their sum and the shared expert."""
        hidden, chosen = experts.hidden or self.shape.hidden, experts.active
        scores = self.put(experts.count, norm, rows=rows)
        order = self.put(experts.count, scores, rows=rows)
        weights = self.put(chosen, scores, order, rows=rows)
        if "raw_weights" not in self.traits:
            weights = self.put(chosen, weights, rows=rows)
        source = norm
        if "weighted_first" in self.traits:
            source = self.put(hidden * chosen, norm, weights, rows=rows)
        width = experts.width * chosen
        if self.shape.gated:
            gate, up = self.put(width, source, order, rows=rows), self.put(width, source, order, rows=rows)
            active = self.put(width, gate, up, rows=rows)
        else:
            active = self.put(width, source, order, rows=rows)
        down = self.put(hidden * chosen, active, order, rows=rows)
        down = self.put(hidden * chosen, down, weights, rows=rows, in_place=True)
        total = self.put(hidden, down, rows=rows)
        if experts.shared_width:
            total = self.add(total, self._dense(experts.shared_width, norm, rows), rows)
        return total
