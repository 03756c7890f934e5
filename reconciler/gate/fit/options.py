"""Every way to run one model that is worth looking at: each profile, on each GPU class, with each count that splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.domain.fit import FitShape, LeftOut, ModelFit
from reconciler.domain.model_spec import Task
from reconciler.domain.shape import Shape
from reconciler.gate.card import SLICE, card
from reconciler.gate.fit.judging import judge, refusals_at_any_count, refusals_of_count
from reconciler.gate.subject import Use
from reconciler.gate.written import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.fit import FitOption, FitRemark
    from reconciler.domain.lock import LockedSource
    from reconciler.domain.model_spec import Engine, ModelSpec
    from reconciler.gate.subject import Context

USUAL_CLASSES = ("l4", "l40s", "a100-80gb", "h100-80gb", "h200", "mi300x")
"""What a SOURCE is shown on where no node here has GPUs: one card of each size that is common in serving, 24 to
192 GB. Any other is asked for by name."""

USUAL_COUNTS = (1, 2, 4, 8)
"""GPUs of one node where the inventory has none of the class: servers are sold with these, hardly with others."""

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which options are wanted; without anything, all of them."""

    declared: bool = False
    """Only what the profiles declare."""
    engine: Engine | None = None
    gpu_class: str | None = None
    """Any class, whether a node has it or not."""
    gpus: int | None = None
    """This count, whether it splits or not."""
    source: str | None = None
    """A SOURCE as it was asked for: its options belong to no profile and none is declared."""


EVERYTHING = Narrowing()


def model_fit(context: Context, model: ModelSpec, wanted: Narrowing = EVERYTHING) -> ModelFit:
    """All options of one model of this tree, those declared first; and which counts were left out."""
    name = wanted.source or model.name
    if model.external is not None or model.task is Task.IMAGE:
        why = "external: somebody else's cards hold it" if model.external else "task image: not sized by tokens"
        return ModelFit(model=name, options=(), notes=(why,), counts=False)
    uses = [use for use in context.uses if use.model is model and wanted.engine in (None, use.profile.engine)]
    options: list[FitOption] = []
    left_out: list[LeftOut] = []
    for use in uses:
        for gpu_class in _classes(context, use, wanted):
            found, out = _on_class(context, use, gpu_class, wanted)
            options += found
            left_out += out
    first = uses[0] if uses else None
    locked = context.knowledge.locked(model, first.profile) if first else None
    return ModelFit(
        model=name,
        options=tuple(options),
        source=_shown_source(model, first),
        revision=locked.revision if locked else None,
        context=model.context,
        shape=_figures(context, first, locked) if first else None,
        left_out=tuple(left_out),
        notes=() if options or left_out else (_nothing_left(model, wanted),),
    )


def _shown_source(model: ModelSpec, first: Use | None) -> str | None:
    """What the first profile loads, as people may read it (promise 9)."""
    source = (first.profile.source if first else None) or model.source
    return None if source is None else shown(source)


def _classes(context: Context, use: Use, wanted: Narrowing) -> tuple[str | None, ...]:
    """The declared class, then the others that selected nodes have; None stands for CPUs."""
    declared = use.profile.gpu_class
    if wanted.gpu_class is not None:
        # A SOURCE has another profile for GPUs.
        return () if declared is None and wanted.source is not None else (wanted.gpu_class,)
    if declared is None:
        return (None,) if wanted.gpus is None else ()
    if wanted.source is None and (wanted.declared or not _is_known(context, use)):
        return (declared,)
    select = use.profile.select or {}
    here = context.inventory.classes if context.inventory else ()
    others = [each for each in here if context.inventory and context.inventory.kinds(each, select)]
    if wanted.gpus is not None:
        others = [each for each in others if wanted.gpus in _offered(context, use, each)]
    if wanted.source is not None:
        return tuple(others) if here else USUAL_CLASSES
    return tuple(dict.fromkeys((declared, *others)))


def _on_class(
    context: Context, use: Use, gpu_class: str | None, wanted: Narrowing
) -> tuple[list[FitOption], list[LeftOut]]:
    options: list[FitOption] = []
    left_out: list[LeftOut] = []
    profile = None if wanted.source is not None else use.profile.name
    asked = [_with_count(use, gpu_class, gpus) for gpus in _counts(context, use, gpu_class, wanted)]
    always = refusals_at_any_count(context, asked[0])
    for each in asked:
        declared = wanted.source is None and (gpu_class, each.gpus) == (use.profile.gpu_class, use.gpus)
        refused = (*refusals_of_count(context, each), *always)
        never = [remark for remark in refused if _at_any_memory(remark)]
        if never and gpu_class is not None and not declared and wanted.gpus is None:
            left_out.append(
                LeftOut(
                    profile=profile,
                    engine=each.profile.engine,
                    gpu_class=gpu_class,
                    gpus=each.gpus,
                    reasons=tuple(dict.fromkeys(remark.rule for remark in never)),
                    message=never[0].message,
                )
            )
        else:
            options.append(judge(context, each, refused, profile=profile, declared=declared))
    whole = wanted.gpus is None and not wanted.declared and gpu_class is not None
    return (_least_marked(options) if whole else options), left_out


def _counts(context: Context, use: Use, gpu_class: str | None, wanted: Narrowing) -> Sequence[int]:
    """Counts per node; those of the largest selected node, and the declared one whatever nodes have."""
    here = gpu_class == use.profile.gpu_class and wanted.source is None
    if gpu_class is None:
        return (0,)
    if wanted.gpus is not None:
        return (wanted.gpus,)
    if here and (wanted.declared or not _is_known(context, use)):
        return (use.gpus,)
    # Slices do not reach each other (inventory/mig).
    offered = (1,) if SLICE.match(gpu_class) else _offered(context, use, gpu_class)
    return sorted({*offered, *((use.gpus,) if here else ())})


def _is_known(context: Context, use: Use) -> bool:
    """Whether the model's shape and its cards are; without them other counts tell nothing."""
    gpu_class = use.profile.gpu_class
    no_card = gpu_class is not None and card(context.desired.classes, gpu_class) is None
    return not no_card and isinstance(context.knowledge.shape(use), Shape)


def _offered(context: Context, use: Use, gpu_class: str) -> Sequence[int]:
    kinds = context.inventory.kinds(gpu_class, use.profile.select or {}) if context.inventory else ()
    return range(1, max(kind.gpus for kind in kinds) + 1) if kinds else USUAL_COUNTS


def _with_count(use: Use, gpu_class: str | None, gpus: int) -> Use:
    """The same profile on this class with this count; as it is where it says so, or runs on CPUs."""
    if gpu_class is None or (gpu_class, gpus) == (use.profile.gpu_class, use.profile.gpus):
        return use
    return Use(use.model, use.profile.model_copy(update={"gpu_class": gpu_class, "gpus": gpus}), use.where)


def _at_any_memory(remark: FitRemark) -> bool:
    """Whether the engine would not start on these cards however much memory they had."""
    return remark.severity is Severity.ERROR and remark.rule.startswith(("heads/", "inventory/"))


def _least_marked(options: Sequence[FitOption]) -> list[FitOption]:
    """The same options, the fewest GPUs that fit marked; where none surely fits, the fewest that might."""
    good = [each for each in options if each.verdict == "fits"] or [each for each in options if each.verdict == "tight"]
    return [each.model_copy(update={"least": True}) if good and each is good[0] else each for each in options]


def _figures(context: Context, use: Use, locked: LockedSource | None) -> FitShape | None:
    shape = context.knowledge.shape(use)
    if not isinstance(shape, Shape):
        return None
    size = locked.weight_bytes if locked else None
    attention = [layer.attention for layer in shape.layers if layer.attention is not None]
    quantization = shape.quantization
    return FitShape(
        architecture=shape.architecture,
        layers=len(shape.layers),
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        latent=any(each.latent is not None for each in attention),
        experts=shape.experts or max((each.experts.count for each in shape.layers if each.experts), default=0),
        weight_type=quantization.method if quantization else shape.dtype,
        weight_gib=None if size is None else round(size / _GIB, 6),
        trained=shape.trained.longest if shape.trained else None,
    )


def _nothing_left(model: ModelSpec, wanted: Narrowing) -> str:
    profiles = ", ".join(f"{each.name} ({each.engine}, {each.gpu_class or 'CPUs'})" for each in model.profiles)
    if wanted.engine is not None and all(each.engine is not wanted.engine for each in model.profiles):
        return f"no profile runs {wanted.engine}; profiles: {profiles or 'none'}"
    return f"no profile is left; profiles: {profiles or 'none'}"
