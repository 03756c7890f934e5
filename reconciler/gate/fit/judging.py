"""One way to run a model → its figures and the verdict on it, in the words that `validate` would use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.domain.fit import FitOption, FitRemark, PerGpu
from reconciler.domain.shape import Shape
from reconciler.gate import context as lengths
from reconciler.gate import heads, inventory, memory
from reconciler.gate.card import card
from reconciler.gate.phrases import one_line
from reconciler.sizing.sized import FitVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reconciler.domain.fit import Verdict
    from reconciler.gate.rule import Rule
    from reconciler.gate.subject import Context, Use
    from reconciler.sizing.sized import Breakdown, Sized

_GIB = 2**30
_DIGITS = 6
"""Decimals of a GiB that are kept: the last is a KiB, so that small models keep their figures."""

_SPLITTING: tuple[Rule, ...] = (
    heads.attention_split,
    heads.kv_split,
    heads.kv_replicated,
    heads.vocab_split,
    heads.mlp_split,
    heads.experts_split,
    heads.quant_group,
    heads.vision_split,
    heads.recurrent_split,
    heads.pipeline_layers,
    heads.parallel_product,
    inventory.gpus_range,
    inventory.mig,
    inventory.single_gpu_engine,
)
"""Rules on the count. Whether a node has so many cards (inventory/node-too-small) is not asked: the question is what
cards would hold, and often which ones to buy."""

_HOLDING: tuple[Rule, ...] = (
    memory.weights,
    memory.request,
    memory.host_ram,
    memory.startup_slack,
    memory.share,
    memory.pool,
    memory.tight,
    memory.unknown,
    lengths.slots,
)
"""Rules on what the cards would hold, the gravest first."""

LOCK_MISSING = "lock/missing"


def refusals_at_any_count(context: Context, use: Use) -> tuple[FitRemark, ...]:
    """What the gate's rules say of this use on its GPU class whatever the count, errors first."""
    gpu_class = use.profile.gpu_class
    rules = [inventory.cpu_profile, lengths.beyond_trained]
    if gpu_class is not None and card(context.desired.classes, gpu_class) is None:
        rules.append(inventory.unknown_class)
    if isinstance(context.knowledge.shape(use), Shape):  # else memory/unknown says that nothing is known
        rules.append(inventory.unsupported)
    return _said(rules, context.only(use))


def refusals_of_count(context: Context, use: Use) -> tuple[FitRemark, ...]:
    """What they say of its count, errors first."""
    return _said(_SPLITTING, context.only(use))


def _said(rules: Iterable[Rule], alone: Context) -> tuple[FitRemark, ...]:
    found = dict.fromkeys(remark for rule in rules for remark in _told(rule, alone))
    return tuple(sorted(found, key=lambda remark: not _is_error(remark)))


def _told(rule: Rule, context: Context) -> Iterator[FitRemark]:
    """Its problems; notes are left to `validate`."""
    for problem in rule.check(context) if rule.check is not None else ():
        severity = problem.severity or rule.severity
        if severity is not Severity.NOTE:
            hint = None if problem.hint is None else one_line(problem.hint)
            yield FitRemark(rule=rule.slug, severity=severity, message=one_line(problem.message), hint=hint)


def unlocked(context: Context, use: Use) -> FitRemark | None:
    """What the model's lock lacks, where it does not tell what the model is."""
    found = context.knowledge.locked(use.model, use.profile)
    name = use.model.name
    hint = f"run reconciler lock {name}"
    if found is None:
        stale = context.desired.locks.get(name) is not None
        message = f"its lock does not hold {use.profile.source or use.model.source}" if stale else f"{name} has no lock"
        if name in context.unreadable_locks:
            message, hint = f"locks/{name}.json is not valid", "reconciler validate says why"
        return FitRemark(rule=LOCK_MISSING, severity=Severity.WARNING, message=message, hint=hint)
    if found.config is None:
        message = f"its lock holds no config of {found.source}"
        return FitRemark(rule=LOCK_MISSING, severity=Severity.WARNING, message=message, hint=hint)
    return None


def judge(
    context: Context, use: Use, refused: tuple[FitRemark, ...], *, profile: str | None, declared: bool
) -> FitOption:
    """The option with its figures; `refused` is what the gate's rules say of it besides memory."""
    lacking = unlocked(context, use)
    # Of a count that does not split, or a model that the engine does not load, no GPU holds a part.
    starts = not any(_is_error(each) and each.rule.startswith(("heads/", "inventory/")) for each in refused)
    locked = context.knowledge.locked(use.model, use.profile) is not None
    sized = context.knowledge.sized(use) if locked and starts else None
    holding = _said(_HOLDING, context.only(use)) if sized is not None else ()
    remarks = (*refused, *holding, *((lacking,) if lacking is not None else ()))
    verdict = _verdict(remarks, sized)
    return FitOption(
        profile=profile,
        engine=use.profile.engine,
        gpu_class=use.profile.gpu_class,
        gpus=use.gpus,
        declared=declared,
        verdict=verdict,
        reasons=_reasons(verdict, remarks),
        per_gpu_gib=_only_total(context, use) if sized is None or sized.per_gpu is None else _per_gpu(sized.per_gpu),
        kv_bytes_per_token=sized.kv_bytes_per_token if sized else None,
        kv_tokens=sized.kv_tokens if sized else None,
        longest_request=sized.longest_request if sized else None,
        concurrency=None if sized is None or sized.concurrency is None else round(sized.concurrency, 2),
        version=context.desired.version(use.profile) or context.knowledge.table(use).version,
        nodes=use.profile.nodes,
        remarks=remarks,
        basis=(sized.basis or None) if sized else None,
        doubts=sized.doubts if sized else (),
    )


def _verdict(remarks: Iterable[FitRemark], sized: Sized | None) -> Verdict:
    """Refused where a rule has an error.

    What sizing refuses and rules only warn of, since the model is not fully known or served unverified, is tight.
    """
    if any(_is_error(each) for each in remarks):
        return "refused"
    match FitVerdict.UNKNOWN if sized is None else sized.verdict:
        case FitVerdict.FITS:
            return "fits"
        case FitVerdict.TIGHT | FitVerdict.REFUSED:
            return "tight"
        case FitVerdict.UNKNOWN:
            return "unknown"


def _reasons(verdict: Verdict, remarks: Iterable[FitRemark]) -> tuple[str, ...]:
    """The rules behind the verdict: of a refusal its errors, else what memory or the lock says."""
    match verdict:
        case "fits":
            return ()
        case "refused":
            return tuple(dict.fromkeys(each.rule for each in remarks if _is_error(each)))
        case "tight" | "unknown":
            said = (each.rule for each in remarks if each.rule.startswith(("memory/", "context/slots", "lock/")))
            return tuple(dict.fromkeys(said)) or (f"memory/{verdict}",)


def _is_error(remark: FitRemark) -> bool:
    return remark.severity is Severity.ERROR


def _per_gpu(found: Breakdown) -> PerGpu:
    return PerGpu(
        total=_gib(found.total),
        usable=_gib(found.usable),
        weights=_gib(found.weights.likely),
        kv_one_request=_gib(found.kv_one_request),
        kv_cache=_gib(max(0, found.kv_cache.likely)),
        activations=_gib(found.activations.likely),
        graphs=_gib(found.graphs.likely),
        runtime=_gib(found.runtime.likely),
        needs_low=_gib(found.needs.low),
        needs=_gib(found.needs.likely),
        needs_high=_gib(found.needs.high),
        reserves=_gib(found.reserves),
    )


def _only_total(context: Context, use: Use) -> PerGpu:
    """What is known of the card where nothing is of the model."""
    gpu_class = use.profile.gpu_class
    found = None if gpu_class is None else card(context.desired.classes, gpu_class)
    return PerGpu(total=_gib(found.engine_bytes) if found else use.profile.memory_gib)


def _gib(size: int) -> float:
    return round(size / _GIB, _DIGITS)
