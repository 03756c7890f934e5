"""A plan as text for people and as JSON for everything else."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Strategy
from reconciler.domain.plan import Action, Reason
from reconciler.planning.impact import load_times
from reconciler.views.placement import place_text, seconds_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Blocked, Change, FieldChange, Plan
    from reconciler.planning.impact import LoadTimes

_REASONS = {
    Reason.RESTART: "a restart was asked for",
    Reason.MOVED: "it must move",
    Reason.DIED: "it served and died",
    Reason.FAILED: "it failed, and is tried again",
    Reason.SCALED_DOWN: "fewer are wanted",
    Reason.REMOVED: "its file is gone",
    Reason.DUPLICATE: "another holds the same slot",
}
_QUIET = {
    Reason.STARTING: "starting",
    Reason.STOPPING: "stopping already",
    Reason.UNHEALTHY: "not answering, which its agent cures or ends",
    Reason.SUSPENDED: "suspended",
    Reason.DIED: "in a crash loop",
    Reason.FAILED: "failed",
}


def plan_json(plan: Plan) -> str:
    """The contract of design section 4, indented."""
    return json.dumps(plan.model_dump(mode="json"), indent=2, ensure_ascii=False)


def plan_text(plan: Plan, observed: Observation, *, commit_line: str | None, fleet: str) -> str:
    """What would happen, model by model: what, why, where and when; then what cannot, and the sum."""
    times = load_times(observed)
    by_model: dict[str, list[Change]] = defaultdict(list)
    for change in plan.changes:
        by_model[change.model].append(change)
    blocks = sorted(
        (_mark(acts), model, _block(model, changes, acts, times))
        for model, changes in by_model.items()
        if (acts := [change for change in changes if change.action is not Action.NONE])
    )
    parts = [[_header(observed, commit_line, fleet)]]
    parts += [lines for mark in "~+-" for each, _, lines in blocks if each == mark]
    parts += [_blocked(block) for block in plan.blocked]
    parts.append(_sum(plan, by_model) if blocks else _no_changes(plan))
    return "\n\n".join("\n".join(lines) for lines in parts)


def _header(observed: Observation, commit_line: str | None, fleet: str) -> str:
    heard, silent = len(observed.reachable), observed.unreachable
    lost = f" ({'; '.join(f'{node.name}: {node.reason}' for node in silent[:3])})" if silent else ""
    return f"{commit_line or 'work tree'}   fleet {fleet}: {heard} of {len(observed.nodes)} nodes heard{lost}"


def _mark(acts: Sequence[Change]) -> str:
    kinds = {change.action for change in acts}
    if kinds == {Action.CREATE}:
        return "+"
    return "-" if kinds == {Action.DELETE} else "~"


def _block(model: str, changes: Sequence[Change], acts: Sequence[Change], times: LoadTimes) -> list[str]:
    reasons = {_reason(change) for change in acts} - {None}
    shared = next(iter(reasons)) if len(reasons) == 1 and all(_reason(change) for change in acts) else None
    title = f"{_mark(acts)} {model}   {'; '.join(_what(acts))}"
    fields = list({(field.field, repr(field)): field for change in acts for field in change.fields}.values())
    lines = [f"{title}   {shared}" if shared else title, *_fields(fields)]
    lines += _slots(model, acts, own_reasons=shared is None)
    return lines + [f"    {line}" for line in _notes(model, changes, acts, times)]


def _what(acts: Sequence[Change]) -> list[str]:
    """`replace 2 replicas, surge, one at a time`."""
    words = []
    for strategy in (Strategy.SURGE, Strategy.IN_PLACE):
        each = [change for change in acts if change.action is Action.REPLACE and change.strategy is strategy]
        at_once = sum(1 for change in each if _goes_now(change))
        pace = (", one at a time" if at_once == 1 else f", {at_once} at once") if len(each) > 1 and at_once else ""
        if each:
            words.append(f"replace {_replicas(len(each))}, {strategy.replace('_', ' ')}{pace}")
    counts = Counter(change.action for change in acts)
    verbs = {Action.CREATE: "create", Action.UPDATE: "update", Action.DELETE: "stop"}
    return words + [f"{verb} {_replicas(counts[action])}" for action, verb in verbs.items() if counts[action]]


def _reason(change: Change) -> str | None:
    word = _REASONS.get(change.reason)
    if word is None:
        return None
    return f"{word}: {change.message}" if change.message and change.message != word else word


def _fields(fields: Sequence[FieldChange]) -> list[str]:
    names = max((len(field.field) for field in fields), default=0)
    rows = [f"    {field.field:<{names}}  {_value(field.before)} → {_value(field.after)}" for field in fields]
    return [f"{rows[0]}   (restarts the engine)", *rows[1:]] if rows else []


def _value(value: Any) -> str:
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


def _slots(model: str, acts: Sequence[Change], *, own_reasons: bool) -> list[str]:
    rows = []
    for change in acts:
        when = "now" if _goes_now(change) else change.schedule.message or "later"
        reason = f"   ({_reason(change)})" if own_reasons and _reason(change) else ""
        rows.append((change.replica.removeprefix(model), _move(change), f"{when}{reason}"))
    slots, places = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [f"    {slot:<{slots}}  {place:<{places}}   {when}" for slot, place, when in rows]


def _move(change: Change) -> str:
    before = place_text(change.before) if change.before else None
    after = place_text(change.after) if change.after else None
    if change.action is Action.DELETE:
        return before or "nowhere"
    if before is None:
        return after or "no place yet"
    if before == after:
        return f"{before} again" if change.strategy is Strategy.IN_PLACE else before
    return f"{before} → {after or 'no place yet'}"


def _notes(model: str, changes: Sequence[Change], acts: Sequence[Change], times: LoadTimes) -> list[str]:
    """What people ask next: how long, and whether anyone notices."""
    starts = [change for change in acts if change.action in {Action.CREATE, Action.REPLACE} and change.after]
    known = [times.of(model, change.after.nodes) for change in starts if change.after]
    longest = max((seconds for seconds in known if seconds is not None), default=None)
    took = f"the last start took {seconds_text(longest)}" if longest is not None else None
    wanted = [change for change in changes if change.action is not Action.DELETE]
    broken = {Reason.DIED, Reason.FAILED}
    away = [change for change in starts if change.strategy is Strategy.IN_PLACE and _goes_now(change)]
    notice = None
    if any(change.strategy is Strategy.SURGE and change.reason not in broken for change in starts):
        notice = "each serves until its successor answers"
    elif away and len(away) == len(wanted) and not any(change.reason in broken for change in away):
        notice = f"nothing serves {model} while it loads"
    elif all(change.action is Action.DELETE for change in acts) and any(_goes_now(change) for change in acts):
        notice = "requests in flight may end first"
    return ["; ".join(filter(None, [took, notice]))] if took or notice else []


def _goes_now(change: Change) -> bool:
    return change.schedule.kind == "now"


def _blocked(block: Blocked) -> list[str]:
    lines = [f"blocked {block.rule}: {block.message}"]
    return lines + ([f"    fix: {block.hint}"] if block.hint else [])


def _sum(plan: Plan, by_model: dict[str, list[Change]]) -> list[str]:
    impact = plan.impact
    changing = len({change.model for change in plan.acts})
    quiet = len(by_model) - changing
    lines = _left_alone(plan)
    verb = "model changes" if changing == 1 else "models change"
    lines.append(
        f"{changing} {verb}: {impact.replaced} replace, {impact.deleted} delete, {impact.created} create."
        f" {quiet} unchanged.{_time(plan)}"
    )
    return [*lines, f"plan {plan.digest[:8]}   {_apply_with(plan)}"]


def _apply_with(plan: Plan) -> str:
    if plan.commit is None:
        return "the work tree cannot be applied: commit it first"
    if plan.blocked and all(change.schedule.kind == "waiting" for change in plan.acts):
        return "nothing of it can be done now"
    only = "" if plan.complete else f" --model {plan.changes[0].model}"
    return f"apply with: reconciler apply{only}"


def _time(plan: Plan) -> str:
    seconds, away = plan.impact.seconds, plan.impact.outage_seconds
    words = f"   about {seconds_text(seconds)}" if seconds else ""
    return words + (f", of which {seconds_text(away)} without a replica of one model" if seconds and away else "")


def _no_changes(plan: Plan) -> list[str]:
    matching = [change for change in plan.changes if change.reason is Reason.MATCHES]
    models = len({change.model for change in matching})
    if not plan.changes:
        return ["no changes: no replica is desired and none runs"]
    verb = "is" if len(matching) == 1 else "are"
    as_desired = f"{_replicas(len(matching))} of {models} model{'s' if models != 1 else ''} {verb} as desired"
    counts = Counter(change.reason for change in plan.changes if change.reason in _QUIET)
    quiet = [f"{count} {_QUIET[reason]}" for reason, count in sorted(counts.items())]
    if not matching and not quiet:
        return ["no changes", *_left_alone(plan)]
    return [f"no changes: {'; '.join([as_desired, *quiet] if matching else quiet)}", *_left_alone(plan)]


def _left_alone(plan: Plan) -> list[str]:
    lost = [change for change in plan.changes if change.reason is Reason.UNREACHABLE]
    return [f"left alone: {change.replica} ({change.schedule.message})" for change in lost]


def _replicas(count: int) -> str:
    return f"{count} replica{'' if count == 1 else 's'}"
