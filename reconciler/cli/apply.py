"""`apply`: the gate first, then the plan and a yes, then do it with progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.console import Context, commit_line, is_terminal, leave, note, note_uncommitted, out

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.cli.progress import Progress
    from reconciler.controller.aim import Aim
    from reconciler.controller.apply import Applied
    from reconciler.controller.ground import Ground
    from reconciler.domain.assignment import Holder
    from reconciler.domain.plan import Decision

EXIT_FAILED = 1
EXIT_LEFT = 130


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(apply)


def apply(
    context: typer.Context,
    auto_approve: Annotated[bool, typer.Option("--auto-approve", help="Do not ask.")] = False,
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="Only this model.")] = None,
) -> None:
    """Make the fleet as HEAD says.

    The first Ctrl-C finishes what is in flight and starts nothing; the second leaves.
    The next apply goes on from there.
    """
    import anyio  # noqa: PLC0415  # keeps --help lean

    from reconciler.cli.progress import Progress  # noqa: PLC0415
    from reconciler.controller.aim import load_commit  # noqa: PLC0415
    from reconciler.controller.apply import retry_once  # noqa: PLC0415
    from reconciler.controller.attempt import check_only, decide  # noqa: PLC0415
    from reconciler.controller.ground import ground  # noqa: PLC0415
    from reconciler.controller.holder import this_process  # noqa: PLC0415
    from reconciler.controller.look import look  # noqa: PLC0415
    from reconciler.controller.state import state_dir  # noqa: PLC0415
    from reconciler.views.plan import plan_text  # noqa: PLC0415

    options: Context = context.obj
    aim = load_commit(options.directory)
    note_uncommitted(options.directory, aim)
    fleet = aim.desired.fleet.name
    state = state_dir(fleet)
    holder = this_process("apply")
    observed = anyio.run(look, ground(aim.desired, state, may_start=False))
    check_only(aim, observed, model)
    decision = decide(aim, observed, (retry_once(holder),), only=model)
    out(plan_text(decision.plan, observed, commit_line=commit_line(aim), fleet=fleet))
    attended = all(node.agent or not node.replicas for node in observed.reachable)
    if decision.settled and attended:
        _settle(state, aim, model)
        leave(0)
    if decision.plan.acts:
        _approve(decision, auto_approve=auto_approve)
    progress = Progress(observed, decision.plan)
    here = ground(aim.desired, state, may_start=True)
    _record(state, aim, settled=False)
    applied = anyio.run(_apply, here, aim, holder, progress, model)
    if applied is None:
        note("left; agents go on with what they were given, and the next apply goes on from there")
        leave(EXIT_LEFT)
    out(progress.summary(applied, commit=aim.sha or ""))
    if model is not None:
        note(f"note: only {model} was applied; reconciler plan shows the rest")
    if applied.ending.value == 0:
        _settle(state, aim, model)
    leave(applied.ending.value)


def _approve(decision: Decision, *, auto_approve: bool) -> None:
    """Ask for the literal yes; without a terminal and without --auto-approve nothing is done."""
    if auto_approve:
        return
    if not is_terminal():
        note("error: apply asks before it acts, and there is no terminal to ask on")
        note("  fix: look at the plan, then run: reconciler apply --auto-approve")
        leave(EXIT_FAILED)
    answer = typer.prompt(
        f"\nApply plan {decision.plan.digest[:8]}? Only `yes` does it", default="", show_default=False
    )
    if answer != "yes":
        note("not applied")
        leave(EXIT_FAILED)


async def _apply(here: Ground, aim: Aim, holder: Holder, progress: Progress, only: str | None) -> Applied | None:
    """Apply under the two-step Ctrl-C; None when the second one left it."""
    import signal  # noqa: PLC0415  # keeps --help lean

    import anyio  # noqa: PLC0415

    from reconciler.controller.apply import StopRequest  # noqa: PLC0415
    from reconciler.controller.apply import apply as apply_aim  # noqa: PLC0415

    stop = StopRequest()
    applied: Applied | None = None

    async def listen() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                if stop.asked or number == signal.SIGTERM:
                    tasks.cancel_scope.cancel()
                    return
                stop.asked = True
                progress.said("finishing what is in flight and starting nothing; Ctrl-C again leaves at once")

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            applied = await apply_aim(here, aim, holder, progress, stop, only=only)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await here.fleet.close()
    return applied


def _record(state: Path, aim: Aim, *, settled: bool) -> None:
    from reconciler.controller.state import record_aim  # noqa: PLC0415  # keeps --help lean

    trouble = record_aim(state, aim.sha, settled=settled) if aim.sha is not None else None
    if trouble is not None:
        note(f"note: {trouble}")


def _settle(state: Path, aim: Aim, only: str | None) -> None:
    """A commit of which only one model was applied is not settled."""
    if only is None:
        _record(state, aim, settled=True)
