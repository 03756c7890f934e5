"""`plan`: what a commit would do to the fleet."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.console import Context, commit_line, leave, note, note_uncommitted, on_this_clock, out

if TYPE_CHECKING:
    from reconciler.controller.aim import Aim
    from reconciler.domain.observed import Observation
    from reconciler.domain.plan import Plan

EXIT_CHANGES = 2


class PlanFormat(StrEnum):
    """How a plan is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)


def plan(
    context: typer.Context,
    revision: Annotated[str, typer.Option("--commit", metavar="REV", help="The commit to plan.")] = "HEAD",
    worktree: Annotated[bool, typer.Option("--worktree", help="Plan what is being edited; cannot be applied.")] = False,
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="Only this model.")] = None,
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a plan that `apply FILE` carries out.")
    ] = None,
    observed_file: Annotated[
        Path | None, typer.Option("--observed", metavar="FILE", help="Plan against a saved observation; asks no agent.")
    ] = None,
    save_observed: Annotated[
        Path | None, typer.Option("--save-observed", metavar="FILE", help="Write what the nodes say now.")
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Add a timetable: carry it out on a simulated copy of the fleet.")
    ] = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 2 when there are changes.")
    ] = False,
    format: Annotated[PlanFormat, typer.Option(help="How to print the plan.")] = PlanFormat.TEXT,  # noqa: A002
) -> None:
    """Show what a commit would do, and do none of it."""
    from reconciler.controller.aim import load_commit, load_worktree  # noqa: PLC0415  # keeps --help lean
    from reconciler.controller.apply import retry_once  # noqa: PLC0415
    from reconciler.controller.attempt import check_only, decide, wall_clock  # noqa: PLC0415
    from reconciler.controller.figures import foreseen  # noqa: PLC0415
    from reconciler.controller.holder import this_process  # noqa: PLC0415
    from reconciler.controller.plan_file import write_plan  # noqa: PLC0415
    from reconciler.controller.saved_observation import write_observation  # noqa: PLC0415
    from reconciler.controller.standing import read_standing  # noqa: PLC0415
    from reconciler.controller.state import state_dir  # noqa: PLC0415
    from reconciler.controller.timetable import timetable  # noqa: PLC0415

    options: Context = context.obj
    aim = load_worktree(options.directory) if worktree else load_commit(options.directory, revision)
    if revision == "HEAD":
        note_uncommitted(options.directory, aim)
    fleet, now = aim.desired.fleet.name, wall_clock()
    observed = _observe(aim, observed_file)
    if save_observed is not None:
        write_observation(save_observed, fleet, observed, now)
    check_only(aim, observed, model)
    standing = read_standing(state_dir(fleet))
    aim, intents = standing.over(aim), (retry_once(this_process("plan")), *standing.intents)
    decision = decide(aim, observed, intents, only=model, now=now)
    shown = foreseen(aim.desired, observed, intents, now, decision.plan)
    if out_file is not None:
        write_plan(out_file, aim, shown, observed, model, now)
    if simulate:
        rows = timetable(aim, observed, this_process("plan"), state_dir(fleet), model)
        shown = shown.model_copy(update={"timetable": rows})
    out(_printed(shown, observed, aim, format, out_file))
    if model is not None and format is PlanFormat.TEXT:
        note(f"note: only {model} was planned; this plan is not complete")
    leave(EXIT_CHANGES if detailed_exitcode and decision.plan.acts else 0)


def _observe(aim: Aim, file: Path | None) -> Observation:
    """What nodes say now, or what they said in a file."""
    import anyio  # noqa: PLC0415  # keeps --help lean

    from reconciler.controller.ground import ground  # noqa: PLC0415
    from reconciler.controller.look import look  # noqa: PLC0415
    from reconciler.controller.saved_observation import read_observation  # noqa: PLC0415
    from reconciler.controller.state import state_dir  # noqa: PLC0415

    fleet = aim.desired.fleet.name
    if file is not None:
        return read_observation(file, fleet)
    return anyio.run(look, ground(aim.desired, state_dir(fleet), may_start=False))


def _printed(plan: Plan, observed: Observation, aim: Aim, format: PlanFormat, out_file: Path | None) -> str:  # noqa: A002  # as the option
    from reconciler.views.plan import APPLY, plan_json, plan_text  # noqa: PLC0415  # keeps --help lean
    from reconciler.views.plan_markdown import plan_markdown  # noqa: PLC0415

    apply_with = APPLY if out_file is None else f"{APPLY} {out_file}"
    line, fleet = commit_line(aim), aim.desired.fleet.name
    match format:
        case PlanFormat.TEXT:
            return plan_text(on_this_clock(plan), observed, commit_line=line, fleet=fleet, apply_with=apply_with)
        case PlanFormat.MARKDOWN:
            return plan_markdown(plan, observed, commit_line=line, fleet=fleet, apply_with=apply_with)
        case PlanFormat.JSON:
            return plan_json(plan)
