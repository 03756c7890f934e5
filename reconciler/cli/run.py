"""`run`: keep the fleet at the newest good commit, for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from reconciler.cli.console import Context, note

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.controller.apply import Reporter
    from reconciler.controller.commits import Commits
    from reconciler.domain.assignment import Holder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(context: typer.Context) -> None:
    """Keep the fleet at the newest good commit, for ever.

    Takes each new commit that passes the gate and repairs what dies. Ctrl-C stops it; engines go on serving.
    """
    import anyio  # noqa: PLC0415  # keeps --help lean

    from reconciler.cli.progress import Progress  # noqa: PLC0415
    from reconciler.controller.aim import fleet_name  # noqa: PLC0415
    from reconciler.controller.commits import Commits  # noqa: PLC0415
    from reconciler.controller.holder import this_process  # noqa: PLC0415
    from reconciler.controller.state import state_dir  # noqa: PLC0415
    from reconciler.domain.observed import Observation  # noqa: PLC0415
    from reconciler.sources.repository import head  # noqa: PLC0415

    options: Context = context.obj
    sha = head(options.directory)  # not a repository: say so now rather than for ever
    progress = Progress(Observation())
    commits = Commits(options.directory, progress.said)
    state = state_dir(fleet_name(options.directory))
    note(f"watching {options.directory} at {sha[:7]}; state in {state}")
    anyio.run(_run, commits, state, this_process("run"), progress)
    note("stopped; engines go on serving")


async def _run(commits: Commits, state: Path, holder: Holder, reporter: Reporter) -> None:
    """Run until the first SIGINT or SIGTERM."""
    import signal  # noqa: PLC0415  # keeps --help lean

    import anyio  # noqa: PLC0415

    from reconciler.controller.run import run as run_for_ever  # noqa: PLC0415

    async with anyio.create_task_group() as tasks:

        async def listen() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    tasks.cancel_scope.cancel()
                    return

        tasks.start_soon(listen)
        await run_for_ever(commits, state, holder, reporter)
