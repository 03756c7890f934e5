"""One model of a plan, line by line: what and why, what it causes, where and when, who notices, the way back."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Strategy
from reconciler.domain.plan import Action, Reason
from reconciler.views.intent import instant_text
from reconciler.views.placement import place_text, seconds_text
from reconciler.views.words import counted, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.outlook import GpuMemory, ModelOutlook
    from reconciler.domain.plan import Change, FieldChange, HeldBack

REASONS = {
    Reason.RESTART: "a restart was asked for",
    Reason.MOVED: "it must move",
    Reason.DIED: "it served and died",
    Reason.FAILED: "it failed, and is tried again",
    Reason.SCALED_DOWN: "fewer are wanted",
    Reason.REMOVED: "its file is gone",
    Reason.DUPLICATE: "another holds the same slot",
    Reason.PREEMPTED: "a more important model takes its place",
}
_VERBS = {Action.CREATE: "create", Action.UPDATE: "update", Action.DELETE: "stop"}
_STARTS = frozenset({Action.CREATE, Action.REPLACE})


def mark(acts: Sequence[Change]) -> str:
    """`+` starts, `-` stops for good, `~` anything else."""
    kinds = {change.action for change in acts}
    if kinds == {Action.CREATE}:
        return "+"
    return "-" if kinds == {Action.DELETE} else "~"


def model_lines(acts: Sequence[Change], outlook: ModelOutlook | None) -> list[str]:
    """All lines of one model; without an outlook those that the changes alone tell."""
    model = acts[0].model
    reasons = {reason_text(change) for change in acts}
    shared = next(iter(reasons)) if len(reasons) == 1 else None
    title = f"{mark(acts)} {model}   {what_text(acts, outlook)}"
    lines = [f"{title}   {shared}" if shared else title, *_rows(acts, outlook)]
    lines += _slots(model, acts, own_reasons=shared is None)
    return lines + [f"    {line}" for line in (notes(acts, outlook) if outlook is not None else ())]


def held_back_lines(held: HeldBack) -> list[str]:
    """A suspended model: who holds it back, why and until when, what waits, and how to let it go."""
    acts = held.changes
    if held.author is None:
        who, end = "its file says suspend: true", "let it go: take suspend: true out of its file, commit and apply"
    else:
        until = "until resumed" if held.expires_at is None else f"until {instant_text(held.expires_at)}"
        who = f"suspended by {held.author} {until}" + (f": {held.reason}" if held.reason else "")
        end = f"let it go: reconciler resume {held.model}"
    reasons = dict.fromkeys(filter(None, (reason_text(change) for change in acts)))
    told = f"{what_text(acts, None)}" + (f"   {'; '.join(reasons)}" if reasons else "")
    lines = [f"= {held.model}   held back: {told}", f"    {who}", *_rows(acts, None)]
    rows = []
    for change in acts:
        placeless = change.after is None and change.action in _STARTS and change.schedule.message
        place = f"{move_text(change)}: {placeless}" if placeless else move_text(change)
        rows.append((change.replica.removeprefix(held.model), place))
    slots = max(len(slot) for slot, _ in rows)
    return [*lines, *(f"    {slot:<{slots}}  {place}" for slot, place in rows), f"    {end}"]


def what_text(acts: Sequence[Change], outlook: ModelOutlook | None) -> str:
    """`replace 2 replicas, surge, one at a time (there is room beside)`."""
    words = []
    for strategy in (Strategy.SURGE, Strategy.IN_PLACE):
        each = [change for change in acts if change.action is Action.REPLACE and change.strategy is strategy]
        at_once = sum(1 for change in each if _goes_now(change))
        pace = (", one at a time" if at_once == 1 else f", {at_once} at once") if len(each) > 1 and at_once else ""
        if each:
            words.append(f"replace {counted(len(each), 'replica')}, {strategy.replace('_', ' ')}{pace}")
    if words and outlook is not None and outlook.why_strategy is not None:
        words[-1] += f" ({outlook.why_strategy})"
    counts = Counter(change.action for change in acts)
    words += [f"{verb} {counted(counts[action], 'replica')}" for action, verb in _VERBS.items() if counts[action]]
    return "; ".join(words)


def reason_text(change: Change) -> str | None:
    """Why, where the fields do not say it."""
    word = REASONS.get(change.reason)
    if word is None:
        return None
    return f"{word}: {change.message}" if change.message and change.message != word else word


def field_changes(acts: Sequence[Change]) -> list[FieldChange]:
    """What differs, each once."""
    return list({(field.field, repr(field)): field for change in acts for field in change.fields}.values())


def value_text(value: Any) -> str:
    """The value of a field on one line."""
    match value:
        case None:
            return "not set"
        case {"secret": name}:
            return f"secret {name}"
        case str() | int() | float():
            return str(value).lower() if isinstance(value, bool) else str(value)
        case [*items] if all(isinstance(item, str) for item in items):
            return f"[{', '.join(items)}]"
        case [*items] if all(isinstance(item, dict) and {"name", "source"} <= item.keys() for item in items):
            return ", ".join(f"{item['name']}={item['source']}" for item in items)
        case _:
            return json.dumps(value, ensure_ascii=False)


def memory_text(before: GpuMemory | None, after: GpuMemory | None) -> str | None:
    """`41.0 → 24.3 GiB of 72.8 usable`; None where nothing is known."""
    if after is None:
        return None
    if before is None or before == after:
        return f"{after.needs_gib:.1f} GiB of {after.usable_gib:.1f} usable"
    if before.usable_gib == after.usable_gib:
        return f"{before.needs_gib:.1f} → {after.needs_gib:.1f} GiB of {after.usable_gib:.1f} usable"
    was = f"{before.needs_gib:.1f} of {before.usable_gib:.1f}"
    return f"{was} → {after.needs_gib:.1f} GiB of {after.usable_gib:.1f} usable"


def notes(acts: Sequence[Change], outlook: ModelOutlook) -> list[str]:
    """What people ask next: how long, who notices, how back."""
    told = [time_text(acts, outlook), capacity_text(acts, outlook), *_ending(acts, outlook)]
    lines = ["; ".join(filter(None, told))] if any(told) else []
    return lines + ([f"way back: {outlook.way_back}"] if outlook.way_back else [])


def time_text(acts: Sequence[Change], outlook: ModelOutlook) -> str | None:
    """`about 5 min (weights 61 GiB at 1 GiB/s, …; the last start took 2 min 10 s)`."""
    starts = [change for change in acts if change.action in _STARTS]
    if not starts or all(change.after is None for change in starts):
        return None
    last = outlook.last_start_seconds
    basis = [outlook.expected, None if last is None else f"the last start took {seconds_text(last)}"]
    told = "; ".join(filter(None, basis))
    if outlook.seconds is None:
        return told or "time not known: it never loaded, and no lock tells its size"
    return f"about {seconds_text(outlook.seconds)} ({told})" if told else f"about {seconds_text(outlook.seconds)}"


def capacity_text(acts: Sequence[Change], outlook: ModelOutlook) -> str | None:
    """How many serve meanwhile; None where none serves now or none is wanted."""
    if not outlook.ready or not outlook.wanted or all(change.after is None for change in acts):
        return None
    if outlook.lowest == 0:
        away = f" for about {seconds_text(outlook.outage_seconds)}" if outlook.outage_seconds else " while it loads"
        return f"nothing serves {outlook.model}{away}"
    if outlook.lowest < outlook.ready:
        return f"capacity falls to {outlook.lowest} of {counted(outlook.ready, 'replica')} meanwhile"
    return f"capacity never below {counted(outlook.lowest, 'replica')}"


def _ending(acts: Sequence[Change], outlook: ModelOutlook) -> list[str]:
    """Of a model that stops for good: how long its requests get, and who counts on it."""
    if any(change.action is not Action.DELETE for change in acts):
        return []
    drain = f"drain up to {seconds_text(outlook.drain_seconds)} first" if outlook.drain_seconds else "no drain"
    if outlook.wanted:
        return [drain]
    heirs = outlook.fallback_of
    verb = "falls" if len(heirs) == 1 else "fall"
    return [drain, f"{', '.join(heirs)} {verb} back to it" if heirs else "nobody falls back to it"]


def _rows(acts: Sequence[Change], outlook: ModelOutlook | None) -> list[str]:
    """Fields before → after, and what follows from them, as two columns."""
    rows = [
        (each.field, f"{value_text(each.before)} → {value_text(each.after)}{_unit(each.field)}")
        for each in field_changes(acts)
    ]
    how = "restarts the engine" if any(change.action in _STARTS for change in acts) else "told live; nothing restarts"
    differs = bool(rows)
    if outlook is not None and any(change.action in _STARTS for change in acts):
        if outlook.width_before and outlook.width_after and outlook.width_before != outlook.width_after:
            rows.append(("tensor width", f"{outlook.width_before} → {outlook.width_after}"))
        memory = memory_text(outlook.memory_before, outlook.memory_after)
        if memory is not None:
            rows.append(("a GPU needs" if _is_on_gpus(acts) else "it needs", memory))
    if not rows:
        return []
    names = max(width(name) for name, _ in rows)
    lines = [f"    {name}{' ' * (names - width(name))}  {told}" for name, told in rows]
    return [f"{lines[0]}   ({how})", *lines[1:]] if differs else lines


def _unit(field: str) -> str:
    return " a replica" if field == "gpus" else ""


def _is_on_gpus(acts: Sequence[Change]) -> bool:
    places = [place for change in acts for place in (change.after or change.before,) if place is not None]
    return any(place.gpu_uuids for place in places)


def _slots(model: str, acts: Sequence[Change], *, own_reasons: bool) -> list[str]:
    rows = []
    for change in acts:
        when = "now" if _goes_now(change) else change.schedule.message or "later"
        reason = f"   ({reason_text(change)})" if own_reasons and reason_text(change) else ""
        rows.append((change.replica.removeprefix(model), move_text(change), f"{when}{reason}"))
    slots, places = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [f"    {slot:<{slots}}  {place:<{places}}   {when}" for slot, place, when in rows]


def move_text(change: Change) -> str:
    """`gpu-07 [0,1] → gpu-03 [4-7]`."""
    before = place_text(change.before) if change.before else None
    after = place_text(change.after) if change.after else None
    if change.action is Action.DELETE:
        return before or "nowhere"
    if before is None:
        return after or "no place yet"
    if before == after:
        return f"{before} again" if change.strategy is Strategy.IN_PLACE else before
    return f"{before} → {after or 'no place yet'}"


def _goes_now(change: Change) -> bool:
    return change.schedule.kind == "now"
