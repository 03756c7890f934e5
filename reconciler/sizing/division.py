"""How engines that size their cache themselves divide a GPU: what they take, what may be used, what the cache gets.

Read in vLLM's v1/worker/gpu_worker.py, SGLang's srt/arg_groups/memory_hook.py and srt/model_executor, and
TensorRT-LLM's _torch/pyexecutor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.sizing.counting import Division
from reconciler.sizing.estimate import NOTHING, Estimate
from reconciler.sizing.host_memory import cache_bytes
from reconciler.sizing.static_share import static_share

if TYPE_CHECKING:
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.memory_ask import Card, MemoryAsk
    from reconciler.sizing.overheads import Overheads


@dataclass(frozen=True, slots=True)
class Divided:
    """One GPU as an engine divides it, bytes."""

    total: int
    usable: int
    """What weights, cache and the overheads below may use together."""
    reserves: int
    share: float
    """Of what the engine's own meaning is."""
    activations: Estimate
    graphs: Estimate
    """As far as they come out of `usable`."""
    runtime: Estimate
    pool: Estimate
    """What the cache gets; below zero where nothing is left."""
    part: float = 1.0
    """How much of the free rest the cache gets."""
    outside: Estimate = NOTHING
    """What has to fit beside `reserves`: context, communicators, and graphs where they are not counted."""

    @property
    def overhead(self) -> Estimate:
        """All that comes out of `usable` beside weights and cache."""
        return self.activations + self.graphs + self.runtime


def divide(weights: Estimate, over: Overheads, ask: MemoryAsk, card: Card | None, rules: CountingRules) -> Divided:
    """The division of `rules`; on CPUs (no card) that of the host RAM which the profile reserves."""
    if card is None:
        return _host(weights, over, ask)
    match rules.division:
        case Division.SHARE_OF_TOTAL:
            return _share_of_total(weights, over, ask, card, rules)
        case Division.STATIC_SHARE:
            return _static(weights, over, ask, card, rules)
        case Division.SHARE_OF_REST | Division.AS_NEEDED:
            return _share_of_rest(weights, over, ask, card, rules)


def less(first: Estimate, second: Estimate) -> Estimate:
    """The difference of two: its least is what is left when everything taken is large."""
    return Estimate(first.low - second.high, first.likely - second.likely, first.high - second.low)


def _share_of_total(weights: Estimate, over: Overheads, ask: MemoryAsk, card: Card, rules: CountingRules) -> Divided:
    """vLLM: all it takes after its first look at the card stays below share x total."""
    share = ask.share if ask.share is not None else rules.share
    requested = math.ceil(card.engine_bytes * share)
    inside, beside = (over.graphs, NOTHING) if rules.graphs_inside else (NOTHING, over.graphs)
    if ask.kv_cache_bytes is not None:
        # The share is not heeded: the cache is as large as said, and the rest lies beside it.
        usable = card.engine_bytes - over.startup.likely
        pool = Estimate.exactly(ask.kv_cache_bytes)
        taken = weights.likely + over.activations.likely + over.graphs.likely + over.runtime.likely
        return Divided(
            card.engine_bytes, usable, min(card.engine_bytes, taken + ask.kv_cache_bytes), share,
            over.activations, over.graphs, over.runtime, pool,
        )  # fmt: skip
    pool = less(Estimate.exactly(requested), weights + over.activations + inside + over.runtime)
    return Divided(
        card.engine_bytes, requested, requested, share, over.activations, inside, over.runtime, pool,
        outside=over.startup + beside,
    )  # fmt: skip


def _static(weights: Estimate, over: Overheads, ask: MemoryAsk, card: Card, rules: CountingRules) -> Divided:
    """SGLang: weights and cache take share x what was free before loading; the step and its graphs live in the rest."""
    share = ask.share if ask.share is not None else rules.share or static_share(ask, card)
    usable = int(card.engine_bytes * share)
    runtime = Estimate(*(int(each * share) for each in (over.startup.low, over.startup.likely, over.startup.high)))
    pool = less(Estimate.exactly(usable), weights + runtime)
    return Divided(
        card.engine_bytes, usable, usable, share, NOTHING, NOTHING, runtime, pool,
        outside=over.activations + over.graphs + over.runtime,
    )  # fmt: skip


def _share_of_rest(weights: Estimate, over: Overheads, ask: MemoryAsk, card: Card, rules: CountingRules) -> Divided:
    """TensorRT-LLM: the cache takes a share of what weights and the peak of a step leave free."""
    share = ask.share if ask.share is not None else rules.share
    runtime = over.runtime + over.startup
    rest = less(Estimate.exactly(card.engine_bytes), weights + over.activations + over.graphs + runtime)
    pool = Estimate(*(int(each * share) for each in (rest.low, rest.likely, rest.high)))
    reserves = card.engine_bytes - max(0, rest.likely - pool.likely)
    return Divided(
        card.engine_bytes, card.engine_bytes, reserves, share, over.activations, over.graphs, runtime, pool, part=share
    )


def _host(weights: Estimate, over: Overheads, ask: MemoryAsk) -> Divided:
    """On CPUs everything lies in the host RAM that `memory_gib` reserves; the launch says how much of it is cache."""
    total = ask.host_bytes or 0
    pool = Estimate.exactly(cache_bytes(total, weights.likely, over.runtime.likely))
    if ask.kv_cache_bytes is not None:
        pool = Estimate.exactly(ask.kv_cache_bytes)
    return Divided(total, total, total, 1.0, over.activations, NOTHING, over.runtime, pool)
