"""What a change does to models and GPU classes, as cells of tables; and these tables as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Strategy
from reconciler.domain.plan import Action
from reconciler.views.placement import seconds_text
from reconciler.views.words import counted, visible, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.comparison import LedgerRow, ModelChange, Way
    from reconciler.domain.finding import GateReport

CHANGE_HEADS = ("model", "what", "GPUs", "GiB a GPU", "tokens of cache", "rollout", "away")
LEDGER_HEADS = ("GPU class", "in service", "before", "after", "peak", "free")

_NOTHING = "-"
_MARKS = {Action.CREATE: "+", Action.DELETE: "-", Action.REPLACE: "~", Action.UPDATE: "~", Action.NONE: " "}
_VERBS = {
    Action.CREATE: "starts",
    Action.DELETE: "stops",
    Action.REPLACE: "is replaced",
    Action.UPDATE: "restarts nothing",
    Action.NONE: "stays",
}
_LISTED_FIELDS = 3
"""Fields that a row names; the rest are counted."""


def ordered(changes: Sequence[ModelChange]) -> list[ModelChange]:
    """What stops first, since that is what people look for; then replacements, starts and the rest, each by name."""
    order = [Action.DELETE, Action.REPLACE, Action.CREATE, Action.UPDATE, Action.NONE]
    return sorted(changes, key=lambda each: (order.index(each.action), each.model))


def change_cells(change: ModelChange) -> tuple[str, ...]:
    """One row under CHANGE_HEADS; what stays the same on both sides is said once."""
    before, after = change.before, change.after
    return (
        change.model,
        _what(change),
        _gpus(change),
        _arrow(_gib(before), _gib(after), change.action),
        _arrow(_tokens(before), _tokens(after), change.action),
        (change.strategy or _NOTHING).replace("_", " "),
        _away(change),
    )


def ledger_cells(row: LedgerRow) -> tuple[str, ...]:
    """One row under LEDGER_HEADS."""
    peak = f"{row.peak} (+{row.short} that wait)" if row.short else str(row.peak)
    return (row.gpu_class, str(row.total), str(row.before), str(row.after), peak, str(row.free))


def comparison_text(report: GateReport) -> str:
    """Both tables for a terminal, each with a heading; empty without a base."""
    parts = []
    if report.changes is not None:
        rows = [
            (f"{_MARKS[each.action]} {change_cells(each)[0]}", *change_cells(each)[1:])
            for each in ordered(report.changes)
        ]
        parts.append(_table(("  model", *CHANGE_HEADS[1:]), rows) if rows else "no model changes\n")
    if report.ledger:
        parts.append(_table(LEDGER_HEADS, [ledger_cells(each) for each in report.ledger]))
    return "\n".join(parts)


def _what(change: ModelChange) -> str:
    names = [each.field for each in change.fields]
    if change.action is not Action.REPLACE or not names:
        return _VERBS[change.action]
    told = ", ".join(
        f"{each.field} {_value(each.before)} → {_value(each.after)}" for each in change.fields[:_LISTED_FIELDS]
    )
    more = f" and {counted(len(names) - _LISTED_FIELDS, 'more field')}" if len(names) > _LISTED_FIELDS else ""
    return f"{_VERBS[change.action]}: {told}{more}"


def _value(value: object) -> str:
    """A field's value in few characters; what has parts is not written out."""
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case int() | float() | str():
            text = str(value)
            return text if len(text) <= len("a value of 24 characters") else f"{text[:20]}…"
        case _:
            return "…"


def _arrow(before: str | None, after: str | None, action: Action) -> str:
    if action is Action.CREATE:
        return after or _NOTHING
    if action is Action.DELETE:
        return before or _NOTHING
    if before == after:
        return after or _NOTHING
    return f"{before or '?'} → {after or '?'}"


def _gpus(change: ModelChange) -> str:
    """`2 x 4 → 2 x 8 h100-80gb`: replicas times the GPUs of each."""
    before, after = change.before, change.after
    if before is not None and after is not None and before.gpu_class == after.gpu_class is not None:
        return f"{_arrow(_size(before), _size(after), change.action)} {after.gpu_class}"
    return _arrow(_sized(before), _sized(after), change.action)


def _size(way: Way) -> str:
    return f"{way.replicas} x {way.gpus}"


def _sized(way: Way | None) -> str | None:
    if way is None:
        return None
    return f"{_size(way)} {way.gpu_class}" if way.gpu_class is not None else f"{way.replicas} x CPU"


def _gib(way: Way | None) -> str | None:
    return None if way is None or way.gib_per_gpu is None else f"{way.gib_per_gpu:.1f}"


def _tokens(way: Way | None) -> str | None:
    return None if way is None or way.kv_tokens is None else f"{way.kv_tokens:,}"


def _away(change: ModelChange) -> str:
    """How long nothing serves it."""
    if change.action is not Action.REPLACE:
        return _NOTHING
    if change.outage_seconds is None:
        return "while one loads" if change.strategy is Strategy.IN_PLACE else "while one loads, without room beside"
    return f"about {seconds_text(change.outage_seconds)}" if change.outage_seconds else "never"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart, nothing at the end of a line."""
    shown = [[visible(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(width(row[column]) for row in shown) for column in range(len(heads))]
    padded = ([cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)] for row in shown)
    return "".join(f"{'  '.join(cells).rstrip()}\n" for cells in padded)
