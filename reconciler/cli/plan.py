"""`plan`: what a commit would do to the fleet."""

from __future__ import annotations

from typing import Annotated

import typer

from reconciler.cli.console import Context, Format, commit_line, leave, note, note_uncommitted, out

EXIT_CHANGES = 2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)


def plan(
    context: typer.Context,
    revision: Annotated[str, typer.Option("--commit", metavar="REV", help="The commit to plan.")] = "HEAD",
    worktree: Annotated[bool, typer.Option("--worktree", help="Plan what is being edited; cannot be applied.")] = False,
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="Only this model.")] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit 2 when there are changes.")
    ] = False,
    format: Annotated[Format, typer.Option(help="How to print the plan.")] = Format.TEXT,  # noqa: A002
) -> None:
    """Show what a commit would do, and do none of it."""
    import anyio  # noqa: PLC0415  # keeps --help lean

    from reconciler.controller.aim import load_commit, load_worktree  # noqa: PLC0415
    from reconciler.controller.apply import retry_once  # noqa: PLC0415
    from reconciler.controller.attempt import check_only, decide  # noqa: PLC0415
    from reconciler.controller.ground import ground  # noqa: PLC0415
    from reconciler.controller.holder import this_process  # noqa: PLC0415
    from reconciler.controller.look import look  # noqa: PLC0415
    from reconciler.controller.state import state_dir  # noqa: PLC0415
    from reconciler.views.plan import plan_json, plan_text  # noqa: PLC0415

    options: Context = context.obj
    aim = load_worktree(options.directory) if worktree else load_commit(options.directory, revision)
    if revision == "HEAD":
        note_uncommitted(options.directory, aim)
    fleet = aim.desired.fleet.name
    here = ground(aim.desired, state_dir(fleet), may_start=False)
    observed = anyio.run(look, here)
    check_only(aim, observed, model)
    decision = decide(aim, observed, (retry_once(this_process("plan")),), only=model)
    if format is Format.JSON:
        out(plan_json(decision.plan))
    else:
        out(plan_text(decision.plan, observed, commit_line=commit_line(aim), fleet=fleet))
        if model is not None:
            note(f"note: only {model} was planned; this plan is not complete")
    leave(EXIT_CHANGES if detailed_exitcode and decision.plan.acts else 0)
