"""`init`: a repository for a fleet, with everything in place that looks after it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli.console import Context, leave, note, out


class Forge(StrEnum):
    """Where pull requests are made."""

    GITHUB = "github"
    GITLAB = "gitlab"
    NONE = "none"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(init)


def init(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="The repository's root.")] = Path(),
    fleet: Annotated[str | None, typer.Option(help="The fleet's name; else that of the directory.")] = None,
    ci: Annotated[Forge, typer.Option(help="Which CI to set up.")] = Forge.GITHUB,
    uses: Annotated[
        str | None, typer.Option(metavar="OWNER/REPO@REF", help="Where CI takes the reconciler from; name a commit.")
    ] = None,
) -> None:
    """Write a configuration repository: a cluster directory to start from, CI, and a hook for pre-commit.

    Nothing is overwritten: where one of the files is there already, it is named, nothing is written, and the exit is 1.
    """
    from reconciler.cli.scaffold import Scaffold, existing, fleet_name, write  # noqa: PLC0415  # keeps --help lean

    options: Context = context.obj
    name = fleet_name(fleet, directory)
    scaffold = Scaffold(name, options.directory, ci.value, uses)
    there = existing(directory, scaffold)
    if there:
        for path in there:
            note(f"{path} is there already")
        note("error: nothing was written")
        note("  fix: move these away, or give another directory")
        leave(1)
    for path, about in write(directory, scaffold):
        out(f"{path}   {about}")
    if ci is not Forge.NONE and uses is None:
        note(f"note: CI takes the reconciler from {scaffold.owner}: write where it is, or give --uses OWNER/REPO@REF")
    note("next: reconciler validate, then git init, add and commit")
