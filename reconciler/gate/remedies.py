"""The nearest changes that would pass, for what does not fit; each was sized and asked of every count rule.

What is searched is one change at a time: a longer list of fields to write together is a decision, and not the gate's.
More GPUs are not among them, since `valid` lists the counts that pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reconciler.domain.desired import Where
from reconciler.domain.model_spec import Engine
from reconciler.engines.fields import runs_on
from reconciler.gate.trial import Change, Search
from reconciler.sizing.capability import capability
from reconciler.sizing.sized import FitVerdict, MemoryReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from reconciler.domain.finding import Problem
    from reconciler.gate.rule import Rule
    from reconciler.gate.subject import Context, Use
    from reconciler.gate.valid import Passing

    Candidates = Callable[[Search], Iterator[Change]]

_SHARES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.92, 0.95)
"""Shares worth writing, as people do. Above 0.95 contexts and communicators find too little room beside the share on
many cards (facts/engines.md section 3.3)."""
_PROFILE_STEPS = 2
"""`profiles` and a position lead to a profile."""
_STEP = 1024
"""Contexts are written in multiples of it; shorter ones in multiples of a quarter."""
_SHARE_OF_REST = 0.9
"""TensorRT-LLM's default (facts/engines.md section 3.3)."""
_HALF = frozenset({MemoryReason.POOL.value, MemoryReason.SLOTS.value})
"""Rules whose findings are about many requests: a context of less than half is no help against those."""
_TWICE = 2
"""How many times as much a cache holds at most when contexts are halved, or its numbers are."""
_FULL_TYPES = ("float32", "float")
"""Types of 32 bit, of which FP8 is a quarter."""
_FP8_CACHE = (8, 9)
"""Compute capability from which FP8 values are read without a kernel of their own: Ada, Hopper and later."""
_SMALLER_CACHE = {
    Engine.VLLM: "fp8",
    Engine.SGLANG: "fp8_e4m3",
    Engine.TRTLLM: "fp8",
    Engine.LLAMACPP: "q8_0",
}
"""The cache type of half the size, in the engine's word. llama.cpp's runs on any GPU and on CPUs."""


class Remedies:
    """The words for each finding that a change of one field would mend."""

    def __init__(self, context: Context, passing: Passing) -> None:
        self._context = context
        self._passing = passing
        self._words: dict[object, str | None] = {}

    def words(self, rule: Rule, problem: Problem) -> str | None:
        """`context: 20480; or kv_cache_dtype: fp8`, each alone being enough; None where nothing was found."""
        use = self._use(problem) if rule.slug in CANDIDATES else None
        if use is None:
            return None
        key = (rule.slug, *self._question(use))
        if key not in self._words:
            self._words[key] = "; or ".join(each.words for each in self.changes(rule, use)) or None
        return self._words[key]

    def changes(self, rule: Rule, use: Use) -> tuple[Change, ...]:
        """Every change that passes, nearest first. One that would be tight is named where the same does not fit."""
        fitting = Search(rule, use, self._context, self._passing)
        if fitting.refused(use):
            return ()  # another reason stands whatever is changed here, and has its own hint
        barely = replace(fitting, verdict=FitVerdict.TIGHT)
        fits = fitting.sized.verdict is FitVerdict.FITS
        found: list[Change] = []
        for candidates in CANDIDATES[rule.slug]:
            sure = tuple(candidates(fitting))
            # What fits now is not made tight to be rid of a warning.
            found += sure or (
                replace(each, words=f"{each.words} (tight)") for each in (() if fits else candidates(barely))
            )
        return tuple(found)

    def _use(self, problem: Problem) -> Use | None:
        where = problem.where
        if where is None:
            return None
        return self._context.use_by_where.get(Where(where.file, where.path[:_PROFILE_STEPS]))

    def _question(self, use: Use) -> tuple[object, ...]:
        """What decides the answer: models of one shape, size and wish have the same."""
        profile = use.profile
        return (
            id(self._context.knowledge.sized(use)),
            *(profile.engine, self._context.desired.version(profile)),
            *(use.gpus, profile.gpu_class, profile.nodes, profile.pipeline_parallel, profile.data_parallel),
            *(profile.memory_gib, profile.cpu_cores, profile.args, use.model.context),
            frozenset((profile.select or {}).items()),
        )


def context_step(tokens: int) -> int:
    """Contexts are proposed in multiples of this, here as by `fit`, so that the two name one figure."""
    return _STEP if tokens > _STEP else _STEP // 4


def _shorter_context(search: Search) -> Iterator[Change]:
    context = search.use.model.context
    if context is None:
        return
    step = context_step(context)
    half = -(-context // 2 // step) * step if search.rule.slug in _HALF else 0
    near = context * _TWICE // 3 if half else search.longest()
    if near is None or (half and not (search.helps(_TWICE) and search.accepts(search.use.changed(context=half)))):
        return
    longest = search.most(context, step, lambda tokens: search.use.changed(context=tokens), near)
    if longest:
        yield Change(f"context: {longest}", search.use.changed(context=longest))


def _fewer_requests(search: Search) -> Iterator[Change]:
    wanted = search.use.profile.max_concurrency
    if wanted is None:
        return
    near = None if search.held is None else int(search.held)
    most = search.most(wanted, 1, lambda requests: search.use.changed(max_concurrency=requests), near)
    if most:
        yield Change(f"max_concurrency: {most}", search.use.changed(max_concurrency=most))


def _smaller_cache(search: Search) -> Iterator[Change]:
    profile = search.use.profile
    word = _SMALLER_CACHE.get(profile.engine)
    if word is None or profile.kv_cache_dtype not in (None, "auto", "f16", "bfloat16", "float16", "bf16"):
        return
    if profile.engine is not Engine.LLAMACPP and (capability(profile.gpu_class or "") or (0, 0)) < _FP8_CACHE:
        return
    if not (search.helps(_TWICE) or profile.dtype in _FULL_TYPES):
        return
    takes = next(
        (
            flag.choices
            for flag in search.context.knowledge.table(search.use).flags
            if flag.managed is not None and flag.managed.field == "kv_cache_dtype"
        ),
        (),
    )
    changed = search.use.changed(kv_cache_dtype=word)
    if (not takes or word in takes) and search.accepts(changed):
        yield Change(f"kv_cache_dtype: {word}", changed)


def _share(search: Search, shares: Sequence[float]) -> Iterator[Change]:
    for share in shares:
        changed = search.use.changed(memory_share=share)
        if search.accepts(changed):
            yield Change(f"memory_share: {share}", changed)
            return


def _usual_share(search: Search) -> float:
    """The share where none is written: of the card, or for TensorRT-LLM of what weights leave of it."""
    held = search.context.knowledge.sized(search.use).per_gpu
    if held is None or search.use.profile.engine is Engine.TRTLLM:
        return _SHARE_OF_REST
    return held.reserves / held.total


def _higher_share(search: Search) -> Iterator[Change]:
    if search.use.profile.engine not in (Engine.VLLM, Engine.SGLANG, Engine.TRTLLM):
        return
    held = search.context.knowledge.sized(search.use).per_gpu
    written = search.use.profile.memory_share or _usual_share(search)
    if held is None:
        yield from _share(search, [each for each in _SHARES if each > written])
    elif held.needs.low < held.total:  # what is larger than the card fits in no share of it
        pool = max(1, held.kv_cache.likely)
        wider = ((each, 1 + (each - written) * held.total / pool) for each in _SHARES if each > written)
        yield from _share(search, [each for each, times in wider if search.helps(times)])


def _lower_share(search: Search) -> Iterator[Change]:
    written = search.use.profile.memory_share
    yield from _share(search, [each for each in reversed(_SHARES) if written is None or each < written])


def _larger_class(search: Search) -> Iterator[Change]:
    """The smallest class here on which it fits, with the same count where that does."""
    context, use = search.context, search.use
    if context.inventory is None or use.profile.gpu_class is None:
        return
    sizes = {name: context.knowledge.card(name) for name in context.inventory.classes}
    own = context.knowledge.card(use.profile.gpu_class)
    larger = [
        (card.engine_bytes, name)
        for name, card in sizes.items()
        if card is not None and own is not None and card.engine_bytes > own.engine_bytes
        if runs_on(use.profile.engine, name)
    ]
    for _, name in sorted(larger):
        for count in dict.fromkeys([use.gpus, *range(1, context.inventory.classes[name] + 1)]):
            changed = use.changed(gpu_class=name, gpus=count)
            if search.accepts(changed):
                with_count = "" if count == use.gpus else f" with gpus: {count}"
                yield Change(f"gpu_class: {name}{with_count}", changed)
                return


def _more_ram(search: Search) -> Iterator[Change]:
    """The least that is enough, whole GiB, where a node offers it."""
    use, inventory = search.use, search.context.inventory
    kinds = inventory.kinds(use.profile.gpu_class, use.profile.select or {}) if inventory else ()
    low, high = int(use.profile.memory_gib or 0), int(max((kind.memory_gib or _MOST_RAM for kind in kinds), default=0))
    if high <= low or not search.accepts(use.changed(memory_gib=float(high))):
        return
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if search.accepts(use.changed(memory_gib=float(middle))) else (middle, high)
    yield Change(f"memory_gib: {high}", use.changed(memory_gib=float(high)))


_MOST_RAM = 4096
"""GiB that are tried where the inventory does not say what a node has."""
_CACHE = (_shorter_context, _smaller_cache)
CANDIDATES: Mapping[str, Sequence[Candidates]] = {
    MemoryReason.WEIGHTS.value: (_higher_share, _larger_class),
    MemoryReason.REQUEST.value: (*_CACHE, _higher_share, _larger_class),
    MemoryReason.TIGHT.value: (*_CACHE, _higher_share, _larger_class),
    MemoryReason.POOL.value: (_fewer_requests, *_CACHE, _higher_share, _larger_class),
    MemoryReason.SLOTS.value: (_fewer_requests, *_CACHE),
    MemoryReason.HOST_RAM.value: (_more_ram, _shorter_context),
    MemoryReason.STARTUP_SLACK.value: (_lower_share,),
}
"""By rule, the changes that could mend it, in the order in which they are named."""
