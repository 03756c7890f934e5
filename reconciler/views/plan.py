"""A plan as text for people and as JSON for everything else."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from reconciler.domain.plan import Action, Reason
from reconciler.views.placement import seconds_text
from reconciler.views.plan_model import held_back_lines, mark, model_lines
from reconciler.views.timetable import timetable_lines
from reconciler.views.words import counted

if TYPE_CHECKING:
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Blocked, Change, Plan

APPLY = "reconciler apply"

SILENT_TOLD = 3
"""Nodes that do not answer and are told with what happened; `why` and `status` name more."""

_QUIET = {
    Reason.STARTING: "starting",
    Reason.STOPPING: "stopping already",
    Reason.UNHEALTHY: "not answering, which its agent cures or ends",
    Reason.SUSPENDED: "suspended",
    Reason.DIED: "died",
    Reason.FAILED: "failed",
}


def plan_json(plan: Plan) -> str:
    """The contract of design section 4, indented."""
    return json.dumps(plan.model_dump(mode="json"), indent=2, ensure_ascii=False)


def plan_text(
    plan: Plan, observed: Observation, *, commit_line: str | None, fleet: str, apply_with: str = APPLY
) -> str:
    """What would happen, model by model: what, why, where and when; then what cannot, and the sum.

    `apply_with` is the command that carries it out.
    """
    acts = acts_by_model(plan)
    outlooks = {each.model: each for each in plan.models}
    blocks = sorted((mark(changes), model) for model, changes in acts.items())
    parts = [[header(observed, commit_line, fleet), *(f"  {line}" for line in unheard_lines(observed))]]
    parts += [
        model_lines(acts[model], outlooks.get(model)) for wanted in "~+-" for each, model in blocks if each == wanted
    ]
    parts += [held_back_lines(held) for held in plan.held_back]
    parts += [_blocked(block) for block in plan.blocked]
    parts.append([*_left_alone(plan), sum_text(plan), last_line(plan, apply_with)] if acts else _no_changes(plan))
    parts += [timetable_lines(plan.timetable)] if plan.timetable else []
    return "\n\n".join("\n".join(lines) for lines in parts)


def acts_by_model(plan: Plan) -> dict[str, list[Change]]:
    """The changes that do something, by model."""
    found: dict[str, list[Change]] = defaultdict(list)
    for change in plan.acts:
        found[change.model].append(change)
    return found


def header(observed: Observation, commit_line: str | None, fleet: str) -> str:
    """Which commit, which fleet, and how many of its agents were heard."""
    heard = sum(1 for node in observed.reachable if node.agent)
    return f"{commit_line or 'work tree'}   fleet {fleet}: {heard} of {len(observed.nodes)} nodes heard"


def unheard_lines(observed: Observation) -> list[str]:
    """Nodes whose agents were not heard, with what happened: a few of them, and how many more."""
    told = [
        f"{node.name}: no agent runs there; apply starts it when there is work"
        for node in observed.reachable
        if not node.agent
    ]
    silent = observed.unreachable
    told += [f"{node.name} does not answer: {node.reason}" for node in silent[:SILENT_TOLD]]
    more = len(silent) - SILENT_TOLD
    return told + ([f"{counted(more, 'more node')} {'does' if more == 1 else 'do'} not answer"] if more > 0 else [])


def sum_text(plan: Plan) -> str:
    """`2 models change: 2 replace, 1 delete, 0 create. 12 unchanged.   peak h100-80gb in use 34 of 40`."""
    impact = plan.impact
    changing = len({change.model for change in plan.acts})
    quiet = len({change.model for change in plan.changes}) - changing
    verb = "model changes" if changing == 1 else "models change"
    told = f"{changing} {verb}: {impact.replaced} replace, {impact.deleted} delete, {impact.created} create"
    updated = sum(1 for change in plan.acts if change.action is Action.UPDATE)
    told += f", {updated} update" if updated else ""
    return f"{told}. {quiet} unchanged.{_time(plan)}{_peak(plan)}"


def last_line(plan: Plan, apply_with: str) -> str:
    """The digest, and how to carry it out."""
    return f"plan {plan.digest[:8]}   {_apply_with(plan, apply_with)}"


def _apply_with(plan: Plan, apply_with: str) -> str:
    if plan.commit is None:
        return "the work tree cannot be applied: commit it first"
    if plan.blocked and all(change.schedule.kind == "waiting" for change in plan.acts):
        return "nothing of it can be done now"
    only = "" if plan.complete or apply_with != APPLY else f" --model {plan.changes[0].model}"
    return f"apply with: {apply_with}{only}"


def _time(plan: Plan) -> str:
    seconds, away = plan.impact.seconds, plan.impact.outage_seconds
    words = f"   about {seconds_text(seconds)}" if seconds else ""
    return words + (f", of which {seconds_text(away)} without a replica of one model" if seconds and away else "")


def _peak(plan: Plan) -> str:
    told = [f"peak {each.gpu_class} in use {each.peak} of {each.total}" for each in plan.gpus]
    return f"   {', '.join(told)}" if told else ""


def _blocked(block: Blocked) -> list[str]:
    lines = [f"blocked {block.rule}: {block.message}"]
    return lines + ([f"    fix: {block.hint}"] if block.hint else [])


def _no_changes(plan: Plan) -> list[str]:
    matching = [change for change in plan.changes if change.reason is Reason.MATCHES]
    models = len({change.model for change in matching})
    if not plan.changes:
        return ["no changes: no replica is desired and none runs"]
    verb = "is" if len(matching) == 1 else "are"
    as_desired = f"{counted(len(matching), 'replica')} of {counted(models, 'model')} {verb} as desired"
    counts = Counter(change.reason for change in plan.changes if change.reason in _QUIET)
    quiet = [f"{count} {_QUIET[reason]}" for reason, count in sorted(counts.items())]
    if not matching and not quiet:
        return ["no changes", *_left_alone(plan)]
    return [f"no changes: {'; '.join([as_desired, *quiet] if matching else quiet)}", *_left_alone(plan)]


def _left_alone(plan: Plan) -> list[str]:
    lost = [change for change in plan.changes if change.action is Action.NONE and change.reason is Reason.UNREACHABLE]
    return [f"left alone: {change.replica} ({change.schedule.message})" for change in lost]
