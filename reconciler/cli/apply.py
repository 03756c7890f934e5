"""`apply`: the gate first, then the plan and a yes, then do it with progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from reconciler.cli.console import Context, commit_line, is_terminal, leave, note, note_uncommitted, on_this_clock, out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.cli.progress import Progress
    from reconciler.controller.aim import Aim
    from reconciler.controller.apply import Applied
    from reconciler.controller.ground import Ground
    from reconciler.controller.look import Looked
    from reconciler.controller.planned import SavedPlan
    from reconciler.domain.assignment import Holder
    from reconciler.domain.external import ExternalAnswer
    from reconciler.domain.plan import Decision

EXIT_FAILED = 1
EXIT_LEFT = 130


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(apply)


def apply(
    context: typer.Context,
    plan_file: Annotated[
        Path | None, typer.Argument(metavar="[PLAN]", help="A plan that `plan --out` wrote; giving it is the approval.")
    ] = None,
    auto_approve: Annotated[bool, typer.Option("--auto-approve", help="Do not ask.")] = False,
    model: Annotated[str | None, typer.Option("--model", metavar="M", help="Only this model.")] = None,
) -> None:
    """Make the fleet as HEAD says.

    The first Ctrl-C finishes what is in flight and starts nothing; the second leaves.
    The next apply goes on from there.
    """
    import anyio  # noqa: PLC0415  # keeps --help lean

    from reconciler.controller.aim import load_commit  # noqa: PLC0415
    from reconciler.controller.apply import retry_once  # noqa: PLC0415
    from reconciler.controller.attempt import check_only, decide, wall_clock  # noqa: PLC0415
    from reconciler.controller.externals import externals_of  # noqa: PLC0415
    from reconciler.controller.figures import foreseen  # noqa: PLC0415
    from reconciler.controller.ground import ground  # noqa: PLC0415
    from reconciler.controller.holder import this_process  # noqa: PLC0415
    from reconciler.controller.look import look_beyond  # noqa: PLC0415
    from reconciler.controller.standing import Ledger, read_standing  # noqa: PLC0415
    from reconciler.controller.state import state_dir  # noqa: PLC0415
    from reconciler.planning.used_up import may_go  # noqa: PLC0415
    from reconciler.views.plan import APPLY, plan_text  # noqa: PLC0415

    options: Context = context.obj
    aim = load_commit(options.directory)
    note_uncommitted(options.directory, aim)
    fleet = aim.desired.fleet.name
    state = state_dir(fleet)
    saved = _saved(plan_file, aim, state, model)
    only: str | frozenset[str] | None = model if saved is None else saved.scope
    holder = this_process("apply")
    externals = externals_of(aim.desired, model)
    seen = anyio.run(look_beyond, ground(aim.desired, state, may_start=False), externals)
    observed = seen.observed
    check_only(aim, observed, model)
    standing = read_standing(state)
    aim, intents, now = standing.over(aim), (retry_once(holder), *standing.intents), wall_clock()
    decision = decide(aim, observed, intents, only=only, now=now)
    shown = foreseen(aim.desired, observed, intents, now, decision.plan)
    if saved is not None:
        saved.check(shown, observed)
    apply_with = APPLY if plan_file is None else f"{APPLY} {plan_file}"
    out(plan_text(on_this_clock(shown), observed, commit_line=commit_line(aim), fleet=fleet, apply_with=apply_with))
    attended = all(node.agent or not node.replicas for node in observed.reachable)
    if decision.settled and attended:
        _say_externals(seen.externals)
        Ledger(state, note).passed(aim.desired, observed, may_go(aim.desired, observed, intents, decision, now))
        _settle(state, aim, holder, only)
        leave(0)
    if saved is not None:
        saved.claim(state)
    elif decision.plan.acts:
        _approve(decision, auto_approve=auto_approve)
    applied = _carry_out(state, aim, holder, seen, decision, only)
    if saved is not None and decide(aim, applied.last.observed, intents).settled:
        only = None  # the plan file held all that there was to do
    _finish(state, aim, holder, applied, only)


def _finish(state: Path, aim: Aim, holder: Holder, applied: Applied, only: str | frozenset[str] | None) -> NoReturn:
    """Say what was left out, remember what was reached, and leave."""
    if only is not None:
        what = only if isinstance(only, str) else "what the plan names"
        note(f"note: only {what} was applied; reconciler plan shows the rest")
    if applied.ending.value == 0:
        _settle(state, aim, holder, only)
    leave(applied.ending.value)


def _carry_out(
    state: Path, aim: Aim, holder: Holder, seen: Looked, decision: Decision, only: str | frozenset[str] | None
) -> Applied:
    """Do it with progress, and say how it ended."""
    import anyio  # noqa: PLC0415  # keeps --help lean

    from reconciler.cli.progress import Progress  # noqa: PLC0415
    from reconciler.controller.externals import externals_of  # noqa: PLC0415
    from reconciler.controller.ground import ground  # noqa: PLC0415
    from reconciler.controller.look import ask  # noqa: PLC0415
    from reconciler.controller.state import put_back, read_aim  # noqa: PLC0415
    from reconciler.errors import ClaimRefused  # noqa: PLC0415

    progress = Progress(seen.observed, decision.plan)
    here = ground(aim.desired, state, may_start=True)
    before = read_aim(state)
    _record(state, aim, holder, settled=False)
    try:
        applied = anyio.run(_apply, here, aim, holder, progress, state, only)
    except* ClaimRefused:
        put_back(state, before)  # another one goes on with what it set out to do
        raise
    if applied is None:
        note("left; agents go on with what they were given, and the next apply goes on from there")
        leave(EXIT_LEFT)
    out(progress.summary(applied, commit=aim.sha or ""))
    _say_externals(anyio.run(ask, externals_of(aim.desired, only if isinstance(only, str) else None)))
    return applied


def _saved(file: Path | None, aim: Aim, state: Path, model: str | None) -> SavedPlan | None:
    """The plan in a file, if it is this fleet's, of this tree and not used; None where none was given."""
    from reconciler.controller.planned import saved_plan  # noqa: PLC0415  # keeps --help lean
    from reconciler.errors import UsageError  # noqa: PLC0415

    if file is None:
        return None
    if model is not None:
        raise UsageError("a plan file says which models it changes", hint="leave --model out, or plan with it")
    saved = saved_plan(file, aim, state)
    if not saved.scope:
        out("nothing to do: the plan changes nothing")
        leave(0)
    return saved


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


async def _apply(
    here: Ground, aim: Aim, holder: Holder, progress: Progress, state: Path, only: str | frozenset[str] | None
) -> Applied | None:
    """Apply under the two-step Ctrl-C; None when the second one left it."""
    import signal  # noqa: PLC0415  # keeps --help lean

    import anyio  # noqa: PLC0415

    from reconciler.controller.apply import StopRequest  # noqa: PLC0415
    from reconciler.controller.apply import apply as apply_aim  # noqa: PLC0415
    from reconciler.controller.standing import Ledger  # noqa: PLC0415

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
            applied = await apply_aim(here, aim, holder, progress, stop, Ledger(state, progress.said), only=only)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await here.fleet.close()
    return applied


def _say_externals(answers: Mapping[str, ExternalAnswer]) -> None:
    """What nobody here applies and the catalog holds all the same; it never decides how an apply ends."""
    from reconciler.views.external import external_lines  # noqa: PLC0415  # keeps --help lean

    for line in external_lines(answers):
        out(line)


def _record(state: Path, aim: Aim, holder: Holder, *, settled: bool) -> None:
    from reconciler.controller.state import record_aim  # noqa: PLC0415  # keeps --help lean

    trouble = record_aim(state, aim.sha, settled=settled, by=holder) if aim.sha is not None else None
    if trouble is not None:
        note(f"note: {trouble}")


def _settle(state: Path, aim: Aim, holder: Holder, only: str | frozenset[str] | None) -> None:
    """A commit of which only one model was applied is not settled."""
    if only is None:
        _record(state, aim, holder, settled=True)
