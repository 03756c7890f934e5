"""`status`: what is, compared with the commit that was last applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.console import Context, Format, out

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from reconciler.controller.aim import Aim
    from reconciler.controller.state import AimRecord
    from reconciler.domain.status import FleetStatus


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


def status(
    context: typer.Context,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.TEXT,  # noqa: A002
) -> None:
    """Show every model and node as it is now."""
    import anyio  # noqa: PLC0415  # keeps --help lean

    from reconciler.controller.aim import fleet_name  # noqa: PLC0415
    from reconciler.controller.attempt import decide, wall_clock  # noqa: PLC0415
    from reconciler.controller.externals import externals_of  # noqa: PLC0415
    from reconciler.controller.ground import ground  # noqa: PLC0415
    from reconciler.controller.look import look_beyond  # noqa: PLC0415
    from reconciler.controller.standing import read_standing  # noqa: PLC0415
    from reconciler.controller.state import read_aim, state_dir  # noqa: PLC0415
    from reconciler.planning.status import status as fleet_status  # noqa: PLC0415
    from reconciler.planning.used_up import not_outlived  # noqa: PLC0415
    from reconciler.sources.repository import head  # noqa: PLC0415
    from reconciler.views.status import status_json, status_text  # noqa: PLC0415

    options: Context = context.obj
    state = state_dir(fleet_name(options.directory))
    record = read_aim(state)
    aim = _applied(options.directory, record)
    here = ground(aim.desired, state, may_start=False)
    seen = anyio.run(look_beyond, here, externals_of(aim.desired))
    standing = read_standing(state)
    aim = standing.over(aim)
    now = wall_clock()
    decision = decide(aim, seen.observed, not_outlived(standing.intents, _asked_at(aim, record)), now=now)
    commit = record.commit if record else None
    answer = fleet_status(aim.desired, seen.observed, decision, commit, seen.externals, standing.intents, now)
    if format is Format.JSON:
        out(status_json(answer))
    else:
        line = _applied_line(record, head(options.directory))
        out(status_text(_here(answer), fleet=aim.desired.fleet.name, applied_line=line))


def _asked_at(aim: Aim, record: AimRecord | None) -> list[datetime]:
    """When what was applied asked for all that failed to be tried: its commit, and the `apply` of it."""
    from datetime import UTC, datetime  # noqa: PLC0415  # keeps --help lean

    if record is None or aim.commit is None or aim.sha != record.commit:
        return []
    by_apply = record.by is not None and record.by.command == "apply"
    began = [datetime.fromtimestamp(record.by.started_at, UTC)] if record.by is not None and by_apply else []
    return [aim.commit.committed_at, *began]


def _here(answer: FleetStatus) -> FleetStatus:
    """The same with instants on this machine's clock, as the line about the commit has them."""
    models = [each.model_copy(update={"since": each.since and each.since.astimezone()}) for each in answer.models]
    nodes = [
        each.model_copy(update={"heard_at": each.heard_at and each.heard_at.astimezone()}) for each in answer.nodes
    ]
    intents = [
        each.model_copy(
            update={
                "created_at": each.created_at.astimezone(),
                "expires_at": each.expires_at and each.expires_at.astimezone(),
            }
        )
        for each in answer.intents
    ]
    return answer.model_copy(update={"models": tuple(models), "nodes": tuple(nodes), "intents": tuple(intents)})


def _applied(directory: Path, record: AimRecord | None) -> Aim:
    """The commit that was last applied, whatever HEAD says; HEAD before anything was, or where that commit is gone."""
    from reconciler.controller.aim import load_commit  # noqa: PLC0415  # keeps --help lean
    from reconciler.errors import SourceError  # noqa: PLC0415

    if record is None:
        return load_commit(directory)
    try:
        return load_commit(directory, record.commit)
    except SourceError:
        return load_commit(directory)


def _applied_line(record: AimRecord | None, newest: str) -> str:
    """`commit 9c2f4e1 applied 14:31`, and whether HEAD has moved on."""
    if record is None:
        return "nothing applied yet"
    if record.settled_at is not None:
        when = f"applied {record.settled_at.astimezone():%Y-%m-%d %H:%M}"
    elif record.is_abandoned:
        when = f"begun {record.set_at.astimezone():%Y-%m-%d %H:%M}, not finished, and nothing goes on with it now"
    else:
        when = f"being applied since {record.set_at.astimezone():%Y-%m-%d %H:%M}"
    ahead = "" if record.commit == newest else f"; HEAD is {newest[:7]}, not applied"
    return f"commit {record.commit[:7]} {when}{ahead}"
