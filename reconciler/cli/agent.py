"""`agent` and `agent stop`: the node agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli.console import Context, out

command = typer.Typer(help="The node agent.", invoke_without_command=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(command, name="agent")


@command.callback()
def agent(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The agent's configuration (JSON).")
    ] = None,
) -> None:
    """Run the agent of this node in the foreground. Stopping it leaves its engines serving."""
    if context.invoked_subcommand is not None:
        return
    from reconciler.agent.config import load_config  # noqa: PLC0415  # keeps --help lean
    from reconciler.agent.serve import run_agent  # noqa: PLC0415
    from reconciler.errors import UsageError  # noqa: PLC0415

    if config is None:
        raise UsageError("the agent needs its configuration", hint="reconciler agent --config FILE")
    run_agent(load_config(config))


@command.command()
def stop(
    context: typer.Context,
    engines: Annotated[bool, typer.Option("--engines", help="Stop the engines it started, too.")] = False,
) -> None:
    """Stop the agent of this machine's local node."""
    from reconciler.agent.local import stop_agent  # noqa: PLC0415  # keeps --help lean

    for line in stop_agent(_state(context.find_root().obj), engines=engines):
        out(line)


def _state(options: Context) -> Path:
    """The state directory; the fleet's name is only needed where the variable does not name one."""
    import os  # noqa: PLC0415  # keeps --help lean

    from reconciler.controller.state import STATE_VARIABLE, state_dir  # noqa: PLC0415

    if os.environ.get(STATE_VARIABLE):
        return state_dir("")
    from reconciler.controller.aim import fleet_name  # noqa: PLC0415

    return state_dir(fleet_name(options.directory))
