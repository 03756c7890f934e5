"""A plan as a comment on a pull request: a table of models, what is in the way, the sum; every step below a fold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.views.markdown_text import code, plain, row, table_head
from reconciler.views.plan import acts_by_model, header, last_line, plan_text, sum_text, unheard_lines
from reconciler.views.plan_model import (
    capacity_text,
    field_changes,
    held_back_lines,
    mark,
    memory_text,
    reason_text,
    time_text,
    value_text,
    what_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.observed import Observation
    from reconciler.domain.outlook import ModelOutlook
    from reconciler.domain.plan import Change, Plan

MARKER = "<!-- reconciler plan -->"
"""First line of the comment, by which it is found and replaced; not shown."""

LONGEST = 65_000
"""Bytes: GitHub takes 65,536 characters in a comment. Bytes are never fewer than characters."""

_HEADS = ("", "model", "what", "why", "a GPU needs", "time", "meanwhile")


def plan_markdown(plan: Plan, observed: Observation, *, commit_line: str | None, fleet: str, apply_with: str) -> str:
    """The comment; the steps are left out where they would make it longer than LONGEST bytes."""
    acts = acts_by_model(plan)
    outlooks = {each.model: each for each in plan.models}
    told = plan_text(plan, observed, commit_line=commit_line, fleet=fleet, apply_with=apply_with)
    if not acts:
        return "\n".join([MARKER, "### No changes", "", *(plain(line) for line in told.splitlines() if line), ""])
    lines = [MARKER, f"### {plain(sum_text(plan))}", "", plain(header(observed, commit_line, fleet)), ""]
    unheard = [f"- {plain(line)}" for line in unheard_lines(observed)]
    lines += [*unheard, ""] if unheard else []
    lines += table_head(_HEADS)
    lines += [_row(changes, outlooks.get(model)) for model, changes in acts.items()]
    lines += ["", *_held_back(plan), *_blocked(plan), plain(last_line(plan, apply_with)), ""]
    steps = ["<details><summary>Every step</summary>", "", *_fenced(told), "", "</details>", ""]
    fits = len("\n".join([*lines, *steps]).encode()) <= LONGEST
    return "\n".join([*lines, *steps] if fits else [*_cut(lines), "Every step: `reconciler plan`", ""])


def _row(acts: Sequence[Change], outlook: ModelOutlook | None) -> str:
    fields = [f"{each.field} {value_text(each.before)} → {value_text(each.after)}" for each in field_changes(acts)]
    why = fields or list(dict.fromkeys(filter(None, (reason_text(change) for change in acts))))
    cells = [
        what_text(acts, outlook),
        "; ".join(why),
        (memory_text(outlook.memory_before, outlook.memory_after) if outlook else None) or "",
        (time_text(acts, outlook) if outlook else None) or "",
        (capacity_text(acts, outlook) if outlook else None) or "",
    ]
    return row([plain(mark(acts)), code(acts[0].model), *(plain(cell) for cell in cells)])


def _held_back(plan: Plan) -> list[str]:
    told = [[line.strip() for line in held_back_lines(each)] for each in plan.held_back]
    return [f"- {plain('; '.join(lines))}" for lines in told] + ([""] if told else [])


def _blocked(plan: Plan) -> list[str]:
    lines = [
        f"- {code(each.rule)} {plain(each.message)}" + (f"; fix: {plain(each.hint)}" if each.hint else "")
        for each in plan.blocked
    ]
    return ["In the way:", "", *lines, ""] if lines else []


def _fenced(text: str) -> list[str]:
    """As code, in a fence that nothing in it closes."""
    longest = max((len(run) for line in text.splitlines() for run in _ticks(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", text, fence]


def _ticks(line: str) -> list[str]:
    return ["`" * len(part) for part in "".join(each if each == "`" else " " for each in line).split()]


def _cut(lines: Sequence[str]) -> list[str]:
    """As many lines as there is room for."""
    kept: list[str] = []
    left = LONGEST - 200  # for the two lines that follow
    for line in lines:
        left -= len(line.encode()) + 1
        if left < 0:
            return [*kept, "", "… and more"]
        kept.append(line)
    return kept
