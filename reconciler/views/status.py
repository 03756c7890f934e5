"""What is, as a table for people and as JSON for everything else; and one line for a replica under way."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from reconciler.domain.status import NO_AGENT, ModelState
from reconciler.views.intent import intent_text
from reconciler.views.placement import clock_text, indices_text, place_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from reconciler.domain.observed import ObservedReplica
    from reconciler.domain.plan import Blocked
    from reconciler.domain.status import FleetStatus, ModelStatus, ReplicaStatus

_HEADINGS = ("MODEL", "READY", "UPDATED", "STATE", "SINCE", "WHERE")


SILENT_TOLD = 20
"""Nodes that do not answer, and what is wrong with GPUs: so many are told one by one; the JSON has them all."""

STATE_COLUMNS = 60
"""Of the state with its reason: with the other columns a row then fits 120."""


def status_json(status: FleetStatus) -> str:
    """The contract of design section 4, indented."""
    return json.dumps(status.model_dump(mode="json"), indent=2, ensure_ascii=False)


def status_text(
    status: FleetStatus, *, fleet: str, applied_line: str | None = None, now: datetime | None = None
) -> str:
    """One line for the fleet, one for each model; instants in `now`'s time zone, without it as they were reported."""
    rows = [_row(model, now) for model in status.models]
    widths = [max(len(row[column]) for row in (_HEADINGS, *rows)) for column in range(len(_HEADINGS))]
    table = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (_HEADINGS, *rows)
    ]
    lines = [_fleet_line(status, fleet, applied_line)]
    lines += table if rows else ["no model is in the catalog and none runs"]
    lines += [_blocked(block) for block in status.blocked if block.model is None or block.digest is not None]
    lines += [intent_text(intent, now) for intent in status.intents]
    lines += _silent(status, now)
    lines += _gpu_problems(status)
    return "\n".join(line.rstrip() for line in lines)


def progress_line(replica: ObservedReplica) -> str:
    """`qwen-32b/0@5d0e9c11  gpu-03 [4-7]   loading weights 29 / 61 GiB   0:32`."""
    doing = " ".join(filter(None, [replica.stage or replica.state, replica.progress]))
    if replica.failure is not None:
        doing = f"{doing}: {replica.failure}"
    elif replica.running:
        doing = f"{doing}, {replica.running} request{'' if replica.running == 1 else 's'} running"
    where = place_text(replica.entry.placement)
    return f"{replica.id}  {where}   {doing}   {clock_text(replica.state_for.total_seconds())}"


def _fleet_line(status: FleetStatus, fleet: str, applied_line: str | None) -> str:
    used: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for node in status.nodes:
        for gpu_class, use in node.gpus.items():
            used[gpu_class] += use.used
            total[gpu_class] += use.total
    heard = sum(1 for node in status.nodes if node.reachable)
    gpus = [f"{gpu_class} {used[gpu_class]}/{total[gpu_class]}" for gpu_class in sorted(total)]
    applied = applied_line or (f"commit {status.commit[:7]}" if status.commit else None)
    return "   ".join(filter(None, [f"fleet {fleet}", applied, f"nodes {heard}/{len(status.nodes)}", *gpus]))


def _silent(status: FleetStatus, now: datetime | None) -> list[str]:
    """Nodes whose agents do not answer: since when, and what happened."""
    silent = [node for node in status.nodes if not node.reachable]
    lines = []
    for node in silent[:SILENT_TOLD]:
        since = f"not heard since {_instant(node.heard_at, now)}" if node.heard_at is not None else "never heard"
        why = f" ({node.problem})" if node.problem is not None else ""
        told = f"{since}{why}: what runs there is unknown"
        lines.append(f"{node.name}: {NO_AGENT if node.problem == NO_AGENT else told}")
    if len(silent) > SILENT_TOLD:
        lines.append(f"and {len(silent) - SILENT_TOLD} more nodes that do not answer")
    return lines


def _gpu_problems(status: FleetStatus) -> list[str]:
    """What is wrong with the GPUs of nodes, in their agents' words."""
    told = [f"{node.name}: {problem}" for node in status.nodes for problem in node.gpu_problems]
    more = [f"and {len(told) - SILENT_TOLD} more such lines"] if len(told) > SILENT_TOLD else []
    return told[:SILENT_TOLD] + more


def _blocked(block: Blocked) -> str:
    """What holds the fleet as a whole back: whole, with what a person may type."""
    return f"{block.rule}: {block.message}" + (f"; {block.hint}" if block.hint else "")


def _row(model: ModelStatus, now: datetime | None) -> tuple[str, ...]:
    updated = str(model.updated) if model.desired else "-"
    state = model.state.capitalize()
    if model.reason is not None:
        state = _cut(f"{state}: {model.reason}")
    elif model.state is ModelState.OFF:
        state = "Off (no replica wanted)"
    since = _instant(model.since, now) if model.since is not None else ""
    return model.name, f"{model.ready}/{model.desired}", updated, state, since, _where(model.replicas)


def _cut(text: str) -> str:
    """The text, or as much of it as leaves the columns behind it on the screen; the JSON has it whole."""
    return text if len(text) <= STATE_COLUMNS else f"{text[: STATE_COLUMNS - 1].rstrip()}…"


def _where(replicas: Sequence[ReplicaStatus]) -> str:
    """The address of what can be asked; else the place of what is there."""
    words = [
        each.address if each.routable and each.address else f"{each.node} {indices_text(each.gpus)}"
        for each in replicas
    ]
    return ", ".join(words[:2]) + (f" and {len(words) - 2} more" if len(words) > 2 else "")  # noqa: PLR2004  # a table


def _instant(instant: datetime, now: datetime | None) -> str:
    if now is None:
        return f"{instant:%Y-%m-%d %H:%M}"
    local = instant.astimezone(now.tzinfo)
    return f"{local:%H:%M}" if local.date() == now.date() else f"{local:%Y-%m-%d %H:%M}"
