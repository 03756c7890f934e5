"""Says in sentences what does not fit, with the figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.sizing.counting import Division
from reconciler.sizing.kv_plan import BlockPlan
from reconciler.sizing.sized import MemoryReason, Remark

if TYPE_CHECKING:
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.division import Divided
    from reconciler.sizing.estimate import Estimate
    from reconciler.sizing.kv import KvCache
    from reconciler.sizing.memory_ask import MemoryAsk
    from reconciler.sizing.overheads import Batch

_GIB = 2**30
_NO_SLACK = 0.98
"""From this share on, what steps take beyond the engine's own measurement has no room on any card."""
_USUAL_LENGTH = 16
"""Requests use a sixteenth of their limit and more; with room for less, most of them wait or are thrown out again."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a remark is about: one way to run a model, and what it would hold."""

    ask: MemoryAsk
    rules: CountingRules
    step: Batch
    divided: Divided
    weights: Estimate
    needs: Estimate
    cache: KvCache | None
    request: int
    """Bytes of one full-length request."""


def remarks_on(question: Question) -> tuple[Remark, ...]:
    """Every reason, the one that decides first."""
    found = (_room(question), _short(question), _states(question), _pool(question), _slack(question))
    return tuple(sorted((each for each in found if each is not None), key=lambda each: not each.certain))


def no_share(share: float) -> Remark | None:
    """A share that is none; then nothing else can be said."""
    if 0 < share <= 1:
        return None
    said = f"memory_share is {share:g}: it is a share of the GPU, above 0 and at most 1"
    return Remark(MemoryReason.SHARE, said, certain=True)


def gib(size: float) -> str:
    """Bytes for people, one decimal: `76.9`."""
    return f"{size / _GIB:.1f}"


def _room(question: Question) -> Remark | None:
    """Whether weights, one request and overheads fit."""
    ask, divided, needs, weights = question.ask, question.divided, question.needs, question.weights
    where = "GiB a GPU" if ask.gpus else "GiB of host RAM"
    usable = divided.usable
    alone = MemoryReason.WEIGHTS if ask.gpus else MemoryReason.HOST_RAM
    if min(weights.low, needs.low) > usable:
        return Remark(alone, f"the weights alone take {gib(weights.likely)} of {gib(usable)} {where}", certain=True)
    request = f", {gib(question.request)} for one request of {ask.context:,} tokens" if question.request else ""
    parts = f"{gib(weights.likely)} weights{request}, {gib(divided.overhead.likely)} overhead"
    said = f"needs {gib(needs.likely)} of {gib(usable)} {where}: {parts}"
    if needs.low > usable:
        return Remark(MemoryReason.REQUEST if request and ask.gpus else alone, said, certain=True)
    if needs.high > usable:
        return Remark(MemoryReason.TIGHT, f"{said} (it may be {gib(needs.low)} to {gib(needs.high)})", certain=False)
    return None


def _short(question: Question) -> Remark | None:
    """A cache of a written size that one full request does not fit."""
    ask = question.ask
    if ask.kv_cache_bytes is None or question.request <= ask.kv_cache_bytes:
        return None
    said = (
        f"one request of {ask.context:,} tokens takes {gib(question.request)} GiB, "
        f"and the cache is set to {gib(ask.kv_cache_bytes)} GiB"
    )
    return Remark(MemoryReason.REQUEST, said, certain=True)


def _states(question: Question) -> Remark | None:
    """More requests at once than blocks, where each keeps a state."""
    cache, ask = question.cache, question.ask
    if cache is None or not cache.state_bytes or not isinstance(cache.plan, BlockPlan):
        return None
    if not question.rules.refuses_many_states or ask.eager or not ask.gpus or question.divided.pool.high <= 0:
        return None
    pool, most = question.divided.pool, question.step.sequences
    blocks = max(0, pool.likely) // cache.plan.block_bytes
    if blocks >= most:
        return None
    said = (
        f"each of {most:,} requests at once needs a block of the cache for its state, and there are {blocks:,}: "
        f"max_concurrency has to be {max(1, blocks):,} or less"
    )
    certain = pool.high // cache.plan.block_bytes < most
    return Remark(MemoryReason.POOL, said, certain=certain, held=float(blocks))


def _pool(question: Question) -> Remark | None:
    """Fewer tokens than the declared concurrency needs even for short requests."""
    cache, ask, pool = question.cache, question.ask, question.divided.pool
    if cache is None or not ask.concurrency or not ask.context or pool.high < question.request:
        return None
    short = min(ask.context, max(question.rules.block_tokens, ask.context // _USUAL_LENGTH))
    likely = max(0, pool.likely)
    held = cache.concurrency(likely, short)
    if held >= ask.concurrency:
        return None
    full = cache.concurrency(likely, ask.context)
    said = (
        f"the cache holds {int(held)} requests of {short:,} tokens at once and {full:.1f} of {ask.context:,}, "
        f"and max_concurrency is {ask.concurrency}: the others would wait"
    )
    return Remark(MemoryReason.POOL, said, certain=False, held=held)


def _slack(question: Question) -> Remark | None:
    """What must fit beside the share."""
    divided = question.divided
    left = divided.total - divided.reserves
    whole = question.rules.division is Division.SHARE_OF_TOTAL and divided.share >= _NO_SLACK
    if not question.ask.gpus or question.ask.kv_cache_bytes is not None or not (whole or divided.outside.high > left):
        return None
    said = (
        f"a share of {divided.share:g} leaves {gib(left)} GiB a GPU, and {gib(divided.outside.likely)} GiB "
        f"(up to {gib(divided.outside.high)}) have to fit there"
    )
    return Remark(MemoryReason.STARTUP_SLACK, said, certain=whole or divided.outside.low > left)
