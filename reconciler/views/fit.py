"""What each GPU would hold, as a table for people and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

from reconciler.domain.fit import Verdict
from reconciler.views.fit_cells import decimals_for, verdict
from reconciler.views.fit_table import grouped, table
from reconciler.views.words import counted, json_text, visible, width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.fit import FitReport, FitShape, ModelFit

_SHORT = 7
"""Digits of a commit that are shown."""
_COMMIT = 40
_MOST_DOUBTS = 6
"""Lines of doubts a model: of more nobody reads the last."""
_TYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def fit_json(report: FitReport) -> str:
    """The contract of design section 4, indented."""
    return json_text(report.model_dump(mode="json"))


def fit_text(report: FitReport) -> str:
    """A table a model, and a line that sums up where there are several; ends with a newline."""
    blocks = ["\n".join(_model(each)) + "\n" for each in report.models]
    if len(report.models) != 1:
        blocks.append(_closing(report))
    return "\n".join(blocks)


def overview_text(report: FitReport) -> str:
    """One line for each declared option of many models."""
    rows = [("MODEL", "PROFILE", "ON", "GPUS", "VERDICT")]
    for fit in report.models:
        options = fit.options or (None,)
        for option in options:
            if option is None:
                rows.append((fit.model, "", "", "", "; ".join(fit.notes)))
            else:
                on = f"{option.gpu_class or 'CPUs'} with {option.engine}"
                gpus = str(option.gpus or "") if option.nodes == 1 else f"{option.nodes} x {option.gpus}"
                rows.append((fit.model, option.profile or "", on, gpus, verdict(option, decimals_for([option]))))
    widths = [max(width(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        visible("  ".join(cell + " " * (size - width(cell)) for cell, size in zip(row, widths, strict=True)).rstrip())
        for row in rows
    ]
    return "\n".join([*lines, "", _closing(report)])


def _model(fit: ModelFit) -> Iterator[str]:
    yield visible(_head(fit))
    for note in fit.notes:
        yield visible(f" {note}")
    groups = grouped(fit)
    if not groups:
        return
    what = f"{fit.context:,} tokens a request" if fit.context else "no length"
    where = f" by {groups[0].name}" if len(groups) == 1 else ""
    gib = "GiB of host RAM" if all(group.gpu_class is None for group in groups) else "GiB of the fullest GPU"
    yield visible(f"asked: {what}{where}; sizes in {gib}")
    yield ""
    yield from table(fit, groups)
    yield from _below(fit)


def _head(fit: ModelFit) -> str:
    """`llama-70b  meta-llama/Llama-3.3-70B-Instruct@6f6073b  80 layers · 64/8 heads · bf16 · 131.4 GiB of weights`."""
    parts = [_source(fit.model)]
    if fit.source is not None and fit.source != fit.model:
        parts.append(_source(fit.source))
    if fit.shape is not None:
        parts.append(" · ".join(_shape(fit.shape)))
    return "  ".join(parts)


def _source(source: str) -> str:
    """A hub's without its scheme and with few digits of its commit, any other as it is."""
    if not source.startswith("hf:"):
        return source
    name, at, revision = source.removeprefix("hf:").partition("@")
    commit, mark, path = revision.partition("#")
    return f"{name}{at}{commit[:_SHORT] if len(commit) == _COMMIT else commit}{mark}{path}"


def _shape(shape: FitShape) -> Iterator[str]:
    yield counted(shape.layers, "layer")
    if shape.heads:
        yield f"{shape.heads} heads, latent" if shape.latent else f"{shape.heads}/{shape.kv_heads} heads"
    if shape.experts:
        yield counted(shape.experts, "expert")
    if shape.weight_type:
        yield _TYPES.get(shape.weight_type, shape.weight_type)
    if shape.weight_gib is not None:
        size = f"{shape.weight_gib:.1f} GiB" if shape.weight_gib >= 1 else f"{shape.weight_gib * 1024:.1f} MiB"
        yield f"{size} of weights"


def _below(fit: ModelFit) -> Iterator[str]:
    """Whence the overheads, and what is in doubt; each once."""
    for basis in dict.fromkeys(each.basis for each in fit.options if each.basis):
        yield visible(f" sources of the overhead: {basis}")
    doubts = list(dict.fromkeys(doubt for option in fit.options for doubt in option.doubts))
    for doubt in doubts[:_MOST_DOUBTS]:
        yield visible(f" in doubt: {doubt}")
    if len(doubts) > _MOST_DOUBTS:
        yield f" in doubt: and {len(doubts) - _MOST_DOUBTS} more (--format json has all)"


def _closing(report: FitReport) -> str:
    """`14 models: 12 fit, 1 tight, 1 refused`; a model is what the worst of its declared options is."""
    count = Counter(_standing(fit) for fit in report.models)
    words = [f"{count[word]} {'fit' if word == 'fits' else word}" for word in get_args(Verdict) if count[word]]
    words += [f"{count[None]} not sized"] if count[None] else []
    return f"{counted(len(report.models), 'model')}{': ' if words else ''}{', '.join(words)}\n"


def _standing(fit: ModelFit) -> Verdict | None:
    worst_last = list(get_args(Verdict))
    judged = [each.verdict for each in fit.options if each.declared]
    if not fit.counts:
        return None
    return max(judged, key=worst_last.index, default="unknown")
