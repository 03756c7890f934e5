"""What the fullest GPU of a replica would hold, whether it fits, and every reason why not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Shape, Unreadable
from reconciler.sizing.counting import Division
from reconciler.sizing.division import divide, less
from reconciler.sizing.estimate import NOTHING, Estimate
from reconciler.sizing.fit_remarks import Question, no_share, remarks_on
from reconciler.sizing.kv import kv_cache
from reconciler.sizing.llamacpp_budget import size_layers
from reconciler.sizing.memory_ask import Stored
from reconciler.sizing.overheads import batch, overheads
from reconciler.sizing.sized import Breakdown, FitVerdict, MemoryReason, Remark, Sized
from reconciler.sizing.unknown_budget import size_unknown
from reconciler.sizing.weights import gpu_weights

if TYPE_CHECKING:
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.division import Divided
    from reconciler.sizing.kv import KvCache
    from reconciler.sizing.memory_ask import Card, MemoryAsk
    from reconciler.sizing.weights import Weights

_UNSIZED = (0.8, 1.15)
"""What flags that are not counted may do to the need: images switched off or layers moved away, a draft model added."""


_ADDED_SHOWN = 0.005
"""Of the parameters: what loading adds (rests of the allocator's segments, rotary tables) is shown with the weights up
to this, since start logs print it there (median 0.4 %), and with the runtime beyond, so that the figure of a small rank
stays comparable with its files."""


def size(
    shape: Shape | Unreadable | None, stored: Stored, ask: MemoryAsk, card: Card | None, rules: CountingRules
) -> Sized:
    """What one way to run a model would hold on each GPU; `card` is None on CPUs.

    Refused only on the lower bound, tight inside the band, unknown where the shape or the weights are.
    """
    if rules.engine is Engine.COMFYUI:
        return size_unknown(
            Unreadable("ComfyUI loads and unloads parts of a model as it goes"), Stored(), ask, card, rules
        )
    if rules.division is Division.AS_NEEDED:
        return size_layers(shape, stored, ask, card, rules)
    if not isinstance(shape, Shape):
        return size_unknown(shape, stored, ask, card, rules)
    if ask.share is not None and (none := no_share(ask.share)) is not None:
        return Sized(FitVerdict.REFUSED, (none,), None)
    if (missing := _missing(ask, card)) is not None:
        return size_unknown(missing, stored, ask, card, rules)
    step = batch(ask, card, rules)
    ask = replace(ask, batch_tokens=step.tokens)
    weights = gpu_weights(shape, stored, ask, rules)
    over = overheads(shape, ask, card, rules, vocabulary=_vocabulary(weights))
    cache = kv_cache(shape, ask, rules)
    divided = divide(weights.fullest, over, ask, card, rules)
    request = cache.request_bytes(ask.context) if cache is not None and ask.context else 0
    needs = weights.fullest + divided.overhead + Estimate.exactly(_asked(request, divided, ask))
    if ask.unsized:
        needs = needs.within(*_UNSIZED)
    if cache is None:  # nothing is cached, so nothing beyond the need is taken
        divided = replace(divided, pool=NOTHING, reserves=min(divided.reserves, needs.likely))
    remarks = remarks_on(Question(ask, rules, step, divided, weights.fullest, needs, cache, request))
    found = Sized(
        verdict=_verdict(remarks),
        remarks=remarks,
        per_gpu=_breakdown(needs, weights, _own_layers(cache, ask), divided),
        basis=over.basis,
        doubts=_doubts(weights, cache, over.doubts, ask, rules),
    )
    return found if cache is None or ask.context is None else _with_capacity(found, shape, cache, divided, ask.context)


def _vocabulary(weights: Weights) -> int:
    """Bytes of the embedding and the output head."""
    return sum(weights.parts[name].likely for name in ("embedding", "output_head") if name in weights.parts)


def _missing(ask: MemoryAsk, card: Card | None) -> Unreadable | None:
    """What the memory to divide is not known for."""
    if ask.gpus and card is None:
        return Unreadable("the memory of its GPU class is not known")
    if not ask.gpus and not ask.host_bytes:
        return Unreadable("memory_gib is not written, so there is no host RAM to divide")
    return None


def _asked(request: int, divided: Divided, ask: MemoryAsk) -> int:
    """Bytes of the card that one request takes up: a share of the rest must be that large."""
    if ask.kv_cache_bytes is not None:
        return max(request, ask.kv_cache_bytes)
    return int(request / divided.part) if divided.part > 0 else request


def _own_layers(cache: KvCache | None, ask: MemoryAsk) -> int:
    """Bytes of one full-length request without what fills up an engine's groups of layers; the need has that too."""
    return cache.unpadded_bytes(ask.context) if cache is not None and ask.context else 0


def _verdict(remarks: tuple[Remark, ...]) -> FitVerdict:
    """A cache that is short of the declared concurrency, where that only makes requests wait, fits."""
    if any(each.certain for each in remarks):
        return FitVerdict.REFUSED
    return FitVerdict.TIGHT if any(each.reason is not MemoryReason.POOL for each in remarks) else FitVerdict.FITS


def _breakdown(needs: Estimate, weights: Weights, request: int, divided: Divided) -> Breakdown:
    held, added = weights.fullest, weights.added
    beyond = Estimate.exactly(max(0, added - int((held.likely - added) * _ADDED_SHOWN)))
    return Breakdown(
        total=divided.total,
        usable=divided.usable,
        reserves=divided.reserves,
        weights=less(held, beyond),
        activations=divided.activations,
        graphs=divided.graphs,
        runtime=divided.runtime + beyond,
        kv_one_request=request,
        kv_cache=divided.pool,
        needs=needs,
    )


def _with_capacity(found: Sized, shape: Shape, cache: KvCache, divided: Divided, context: int) -> Sized:
    """What the likely cache holds."""
    pool = max(0, divided.pool.likely)
    longest = cache.longest(pool)
    return replace(
        found,
        kv_bytes_per_token=cache.bytes_per_token,
        kv_tokens=cache.tokens_in(pool),
        longest_request=min(longest, shape.trained.longest) if shape.trained else longest,
        concurrency=cache.concurrency(pool, context),
    )


def _doubts(
    weights: Weights, cache: KvCache | None, over: tuple[str, ...], ask: MemoryAsk, rules: CountingRules
) -> tuple[str, ...]:
    unsized = tuple(f"{flag} moves memory in a way that is not counted" for flag in ask.unsized)
    version = () if rules.known else (f"{rules.engine} {rules.version} was not read: counted as the nearest version",)
    return tuple(dict.fromkeys((*weights.doubts, *(cache.doubts if cache else ()), *over, *version, *unsized)))
