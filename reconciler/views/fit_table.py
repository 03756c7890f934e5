"""The options of one model as a table: a group for each profile and GPU class, and under each what explains it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.gate.remedies import context_step
from reconciler.views.fit_cells import by_slots, cells, decimals_for, headings, host_ram
from reconciler.views.words import spans, visible, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from reconciler.domain.fit import FitOption, FitRemark, LeftOut, ModelFit

_DECLARED = "▸"
_GAP = "   "

_SPLITS = {
    "heads/attention-split": "heads do not split",
    "heads/kv-split": "heads do not split",
    "heads/vocab-split": "the vocabulary does not split",
    "heads/mlp-split": "the feed-forward width does not split",
    "heads/experts-split": "experts do not split",
    "heads/quant-group": "groups of quantized weights do not split",
    "heads/vision-split": "the tower does not split",
    "heads/recurrent-split": "recurrent heads do not split",
    "heads/parallel-product": "GPUs do not divide by the stages and ranks",
}
"""Why a count is no choice, in few words; other rules speak in their own."""

_MEMORY = frozenset({"memory/weights", "memory/request"})
"""Rules that more GPUs or shorter requests answer."""


@dataclass(slots=True)
class Group:
    """Options that differ in their count alone."""

    profile: str | None
    engine: str
    gpu_class: str | None
    options: list[FitOption] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def name(self) -> str:
        """`vllm 0.32.0 on h100-80gb`."""
        version = next((f" {each.version}" for each in self.options if each.version), "")
        return f"{self.engine}{version} on {self.gpu_class or 'CPUs'}"


def grouped(fit: ModelFit) -> list[Group]:
    """The groups: those of one profile and engine together, in the order in which the options come."""
    groups: dict[tuple[str | None, str, str | None], Group] = {}

    def group(profile: str | None, engine: str, gpu_class: str | None) -> Group:
        return groups.setdefault((profile, engine, gpu_class), Group(profile, engine, gpu_class))

    for option in fit.options:
        group(option.profile, option.engine, option.gpu_class).options.append(option)
    for left in fit.left_out:
        group(left.profile, left.engine, left.gpu_class).left_out.append(left)
    order = list(dict.fromkeys((each.profile, each.engine) for each in groups.values()))
    return sorted(groups.values(), key=lambda each: order.index((each.profile, each.engine)))


def table(fit: ModelFit, groups: Sequence[Group]) -> Iterator[str]:
    """The lines of the table; a group has a title where there are several."""
    decimals = decimals_for(fit.options)
    heads = headings(fit.options, fit.context)
    slots = by_slots(fit.options)
    rows = [heads, *(cells(each, decimals, slots=slots) for each in fit.options)]
    widths = [max(width(row[column]) for row in rows) for column in range(len(heads))]
    if fit.options:
        yield _line(" ", heads, widths)
    for group in groups:
        if len(groups) > 1:
            yield visible(f" {group.profile}: {group.name}" if group.profile else f" {group.name}")
        for option in group.options:
            yield _line(_DECLARED if option.declared else " ", cells(option, decimals, slots=slots), widths)
        yield from _left_out(group.left_out)
        yield from _told(group.options)
        yield from _instead(group.options)


def _line(mark: str, row: Sequence[str], widths: Sequence[int]) -> str:
    """Figures to the right, the verdict to the left."""
    padded = [" " * (size - width(cell)) + cell for cell, size in zip(row[:-1], widths, strict=False)]
    return visible(f"  {mark} {_GAP.join([*padded, row[-1]])}".rstrip())


def _left_out(left: Iterable[LeftOut]) -> Iterator[str]:
    """`1, 3, 5, 6, 7: heads do not split (heads/kv-split)`; counts with one reason on one line."""
    counts: dict[str, list[int]] = {}
    rules: dict[str, dict[str, None]] = {}
    for each in left:
        first = each.reasons[0]
        words = _SPLITS.get(first, each.message)
        counts.setdefault(words, []).append(each.gpus)
        ours = [rule for rule in each.reasons if _SPLITS.get(rule, each.message) == words and (rule in _SPLITS)]
        rules.setdefault(words, {}).update(dict.fromkeys(ours or [first]))
    for words, gpus in counts.items():
        yield visible(f"    {spans(gpus)}: {words} ({', '.join(rules[words])})")


def _told(options: Sequence[FitOption]) -> Iterator[str]:
    """The sentences of declared options, and those that hold at every count."""
    if not options:
        return
    shared = [each for each in options[0].remarks if all(each in option.remarks for option in options)]
    declared = [remark for option in options if option.declared for remark in option.remarks]
    for remark in dict.fromkeys((*declared, *shared)):
        yield from _sentence(remark)


def _sentence(remark: FitRemark) -> Iterator[str]:
    word = "" if remark.severity is Severity.NOTE else f"{remark.severity} "
    yield visible(f"    {word}{remark.rule}: {remark.message}")
    if remark.hint is not None:
        yield visible(f"    fix: {remark.hint}")


def _instead(options: Sequence[FitOption]) -> Iterator[str]:
    """Both ways round, where the declared count is refused for its size: more GPUs, or what it does hold."""
    declared = next((each for each in options if each.declared and each.verdict == "refused"), None)
    if declared is None:
        return
    if declared.gpu_class is None and "memory/host-ram" in declared.reasons:
        enough = host_ram(declared)
        ways = [] if enough is None else [f"memory_gib: {enough:g}"]
    elif _MEMORY.isdisjoint(declared.reasons):
        return
    else:
        ways = list(_by_count_or_length(declared, next((each for each in options if each.least), None)))
    if ways:
        yield f"    fix: {', or '.join(ways)}"
    elif declared.gpus:
        yield "    no count here holds it; reconciler fit with --gpu-class shows larger cards"


def _by_count_or_length(declared: FitOption, least: FitOption | None) -> Iterator[str]:
    if least is not None and least.gpus > declared.gpus:
        yield f"gpus: {least.gpus}" + (" (tight)" if least.verdict == "tight" else "")
    if declared.longest_request:
        # The longest that likely fits, so it lies inside the band.
        step = context_step(declared.longest_request)
        if declared.longest_request >= step:
            yield f"context: {declared.longest_request // step * step} (tight)"
