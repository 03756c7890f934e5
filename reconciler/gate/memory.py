"""Rules on what the GPUs of a replica would hold, or on CPUs its host RAM. The arithmetic is in `sizing.budget`.

Each rule tells the remarks of its own kind. What is wrong even at the lower bound of the estimate is an error, what is
inside its band is told by memory/tight. A model that is not fully known is never refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine
from reconciler.domain.shape import Unreadable
from reconciler.gate.capacity import GPU_COUNTS
from reconciler.gate.rule import rule
from reconciler.sizing.refusal import Reason
from reconciler.sizing.sized import MemoryReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.finding import Problem
    from reconciler.gate.subject import Context, Use
    from reconciler.sizing.sized import Remark, Sized

_GIB = 2**30


@rule(Severity.ERROR, counts=True)
def weights(context: Context) -> Iterator[Problem]:
    """The weights alone are more than a GPU can give them, so the engine ends while it loads.

    Each GPU holds its part of what is split, and all of what is not. It is compared with what the engine may use of
    the card, which is less than the card: vLLM's share of it, SGLang's static fraction.

        70B in 16 bit over one h100-80gb     131 of 73 GiB: refused
        the same over two                    66 of 73 GiB: they load; whether a request fits is memory/request

    Take more GPUs, a larger class, a quantized checkpoint, or pipeline_parallel where the heads do not split further.
    """
    yield from _told(context, MemoryReason.WEIGHTS)


@rule(Severity.ERROR, counts=True)
def request(context: Context) -> Iterator[Problem]:
    """The weights fit, but not together with one request as long as context says.

    vLLM refuses to start then, TensorRT-LLM ends while it starts, llama.cpp runs out of memory; SGLang starts and cuts
    long requests without saying so, which is refused here all the same.

        70B in 16 bit on two h100-80gb, context: 32768     76.1 of 72.8 GiB a GPU: refused
        the same on four                                   40.4 of 72.8 GiB a GPU: passes

    The message says what each part takes. It is told only where even the lower bound of the estimate is too much; the
    hint names changes that were checked, each enough alone.
    """
    yield from _told(context, MemoryReason.REQUEST)


@rule(Severity.WARNING, counts=True)
def pool(context: Context) -> Iterator[Problem]:
    """The cache holds far fewer tokens than max_concurrency asks for, so most requests would wait or be thrown out.

    It is told where not even requests of a sixteenth of context fit so many times; that full-length ones do not is
    context/slots. Where the engine sets a cache aside for each slot when it starts, as llama.cpp does, too many slots
    are an error.

        max_concurrency: 256 with room for 20,000 tokens    78 tokens a request: warned

    Write a smaller max_concurrency, a shorter context, or give the cache more room with kv_cache_dtype or more GPUs.
    """
    yield from _told(context, MemoryReason.POOL)


@rule(Severity.WARNING)
def tight(context: Context) -> Iterator[Problem]:
    """What it needs is about what there is: inside the error band of the estimate, so it may start or not.

    The message has the likely figure and both bounds. What is not counted exactly, such as a flag that moves memory or
    a version that nobody read, makes the band wider and is named.

        needs 72.1 of 72.8 GiB a GPU (between 70.9 and 74.0)

    Start it once and look, or take the change that the hint names, which fits at the upper bound too.
    """
    yield from _told(context, MemoryReason.TIGHT)


@rule(Severity.ERROR, counts=True)
def host_ram(context: Context) -> Iterator[Problem]:
    """What lies in host RAM is more than memory_gib reserves for it, and the system would kill the engine.

    On CPUs that is everything: weights, the cache of every slot, buffers. With GPUs it is what the engine keeps beside
    them, such as llama.cpp's token embedding.

        memory_gib: 8 for 7.2 GiB of weights with context: 32768     refused

    Reserve more, where a node offers it, or write a shorter context or fewer slots.
    """
    yield from _told(context, MemoryReason.HOST_RAM)


@rule(Severity.WARNING, counts=True)
def startup_slack(context: Context) -> Iterator[Problem]:
    """Contexts and communicators lie outside memory_share, and the rest of the card must have room for them.

    vLLM measures the free memory after they are there and refuses to start if less than its share is left.

        memory_share: 0.97 on a 24 GB card     0.7 GiB left: warned
        memory_share: 0.99 on any card         an error

    From 0.98 on, or where even the least that it takes does not fit, it is an error. Write a lower memory_share.
    """
    yield from _told(context, MemoryReason.STARTUP_SLACK)


@rule(Severity.ERROR, counts=True)
def share(context: Context) -> Iterator[Problem]:
    """The engine may take a share of each GPU, which memory_share states: above 0 and at most 1.

        memory_share: 0.9        nine tenths
        memory_share: 90         refused: it is no percentage

    Leave it out for the engine version's own default. One engine has a card to itself: a smaller share leaves the rest
    unused, and MIG slices share a card instead.
    """
    for use in context.uses:
        value = use.profile.memory_share
        if value is not None and not 0 < value <= 1:
            percent = 2 <= value <= 100  # noqa: PLR2004  # written as a percentage; 1.5 is meant as a share
            hint = f"memory_share: {value / 100:g}" if percent else "memory_share: 0.9"
            yield use.problem("memory_share", f"memory_share is {value:g}; it is above 0 and at most 1", hint)


@rule(Severity.WARNING)
def unknown(context: Context) -> Iterator[Problem]:
    """What a GPU would hold cannot be told, so nothing of memory is checked for this profile.

    Weights of a kind that our tables do not know cannot be counted, and ComfyUI loads what its workflows ask for (a
    note). Nothing is guessed: the engine may run out of memory, and the plan does not know. A lock whose config tells
    no shape is told by inventory/unsupported.

        engine: comfyui     not estimated

    Run `reconciler lock`, or start it once and look. Without any lock it is lock/missing that tells.
    """
    for use in context.uses:
        if use.profile.engine is Engine.COMFYUI:
            message = "comfyui loads what its workflows ask for: memory is not estimated"
            yield use.problem("engine", message, severity=Severity.NOTE)
        elif is_judged(context, use) and not isinstance(context.knowledge.shape(use), Unreadable):
            # A config without a shape is told by inventory/unsupported, with what is not checked because of it.
            sized = context.knowledge.sized(use)
            for remark in () if first(sized) else sized.remarks:
                if remark.reason is MemoryReason.UNKNOWN:
                    yield use.problem("engine", f"memory is not checked: {remark.message}")


def _told(context: Context, reason: MemoryReason) -> Iterator[Problem]:
    for use in context.uses:
        if not is_judged(context, use):
            continue
        sized = context.knowledge.sized(use)
        beside = (MemoryReason.STARTUP_SLACK, MemoryReason.HOST_RAM)
        found = dict.fromkeys([first(sized), *(each for each in sized.remarks if each.reason in beside)])
        for remark in found:
            if remark is not None and told_by(remark) is reason:
                words = _words(sized, remark, use)
                yield use.problem(_field(use, reason), words, severity=_severity(context, use, remark))


_ORDER = (
    MemoryReason.WEIGHTS,
    MemoryReason.REQUEST,
    MemoryReason.TIGHT,
    MemoryReason.POOL,
    MemoryReason.SLOTS,
)
"""Of several remarks on room the first is told: weights that do not fit leave none for a request either."""


def first(sized: Sized) -> Remark | None:
    """The one remark that is told of several on room; None where there is enough. Slack stands beside it."""
    room = [each for each in sized.remarks if each.reason in _ORDER]
    return min(room, key=lambda each: _ORDER.index(told_by(each)), default=None)


def told_by(remark: Remark) -> MemoryReason:
    """The rule that tells it: what is not certain to fail is tight, and slots that cannot all be set up are the pool's.

    context/slots is for those that can, and whose requests may find no room later.
    """
    match remark.reason:
        case MemoryReason.WEIGHTS | MemoryReason.REQUEST | MemoryReason.HOST_RAM if not remark.certain:
            return MemoryReason.TIGHT
        case MemoryReason.SLOTS if remark.certain:
            return MemoryReason.POOL
        case _:
            return remark.reason


def is_judged(context: Context, use: Use) -> bool:
    """Whether there is such a thing as a GPU's part of the model; what keeps it from being so is told elsewhere."""
    profile = use.profile
    if profile.engine is Engine.COMFYUI or not _has_config(context, use):
        return False
    if profile.memory_share is not None and not 0 < profile.memory_share <= 1:
        return False
    if profile.gpu_class is None:
        return profile.memory_gib is not None and profile.gpus is None
    if use.gpus not in GPU_COUNTS or context.knowledge.card(profile.gpu_class) is None:
        return False
    refusals = context.knowledge.refusals(use)
    return not any(each.severity is Severity.ERROR and each.reason.startswith("heads/") for each in refusals)


def _has_config(context: Context, use: Use) -> bool:
    return context.knowledge.shape(use) is not None


def _severity(context: Context, use: Use, remark: Remark) -> Severity:
    return Severity.ERROR if remark.certain and not _is_doubtful(context, use) else Severity.WARNING


def _is_doubtful(context: Context, use: Use) -> bool:
    """Whether the model is served unverified, or its architecture is one that the tables do not know."""
    return use.model.unverified or any(
        each.reason is Reason.UNSUPPORTED and each.severity is Severity.WARNING and each.decided_by == "architectures"
        for each in context.knowledge.refusals(use)
    )


def _field(use: Use, reason: MemoryReason) -> str:
    """The field to change first."""
    match reason:
        case MemoryReason.HOST_RAM:
            return "memory_gib"
        case MemoryReason.STARTUP_SLACK | MemoryReason.SHARE:
            return "memory_share"
        case MemoryReason.POOL | MemoryReason.SLOTS:
            return "max_concurrency"
        case MemoryReason.WEIGHTS | MemoryReason.REQUEST | MemoryReason.TIGHT | MemoryReason.UNKNOWN:
            return "memory_gib" if use.profile.gpu_class is None else "gpus"


def _words(sized: Sized, remark: Remark, use: Use) -> str:
    """The remark, how far it is from fitting, and what the engine would do."""
    held = sized.per_gpu
    if remark.reason is MemoryReason.STARTUP_SLACK and remark.certain:
        return f"{remark.message}; {use.profile.engine} would not start, or run out of memory in its first large step"
    if told_by(remark) is MemoryReason.TIGHT:
        return f"{remark.message}; {sized.doubts[0]}" if sized.doubts else remark.message
    if held is None or remark.reason not in (MemoryReason.WEIGHTS, MemoryReason.REQUEST):
        return remark.message
    least = held.weights.low if remark.reason is MemoryReason.WEIGHTS else held.needs.low
    over = f"at least {(least - held.usable) / _GIB:.1f} GiB over" if least > held.usable else None
    return "; ".join(each for each in (remark.message, over, _ending(sized, remark, use)) if each)


def _ending(sized: Sized, remark: Remark, use: Use) -> str | None:
    """What the engine would do (facts/engines.md section 3.3)."""
    alone = remark.reason is MemoryReason.WEIGHTS
    match use.profile.engine:
        case Engine.VLLM:
            return "vllm would not start" if alone else "vllm would refuse to start"
        case Engine.SGLANG if not alone and sized.longest_request:
            return f"sglang would start and cut requests to {sized.longest_request:,} tokens without saying so"
        case Engine.SGLANG | Engine.TRTLLM:
            return f"{use.profile.engine} would end while it starts"
        case Engine.LLAMACPP:
            return "llama.cpp would run out of memory while it loads"
        case Engine.COMFYUI:
            return None
