"""`lock`: resolve the sources of models and write what they were found to be."""

from __future__ import annotations

from typing import Annotated

import typer

from reconciler.cli.console import Context, leave


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(lock)


def lock(
    context: typer.Context,
    models: Annotated[list[str] | None, typer.Argument(metavar="MODEL", help="All models without it.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Look at every source again and tell what differs; write nothing.")
    ] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Look at every source again and lock what it is now.")
    ] = False,
) -> None:
    """Write what the sources of models are into cluster/locks, to be committed.

    Sources that are locked already stay as they are; only new ones are looked at. With --upgrade all are: a branch
    is locked to the commit it points to now. The YAML is never changed. Of weights only the headers are
    read, except of file: sources, whose digest is their revision.
    Models that say unverified: true and have no lock are left alone unless named.
    Exit 1 when a model could not be locked, or with --check when something differs.
    """
    from reconciler.cli.locking import LockCommand, LockProgress  # noqa: PLC0415  # keeps --help lean
    from reconciler.errors import UsageError, WeightsError  # noqa: PLC0415  # keeps --help lean
    from reconciler.sources.loader import load  # noqa: PLC0415
    from reconciler.sources.worktree import read_worktree  # noqa: PLC0415
    from reconciler.weights.lock_source import Access  # noqa: PLC0415
    from reconciler.weights.meter import Meter  # noqa: PLC0415
    from reconciler.weights.web import Web  # noqa: PLC0415

    if check and upgrade:
        raise UsageError("--check and --upgrade exclude each other", hint="--check tells what --upgrade would change")
    options: Context = context.obj
    directory = options.directory
    loaded = load(read_worktree(directory))
    known = loaded.partial.model_by_name
    names = list(dict.fromkeys(models or sorted({*known, *loaded.broken})))
    unknown = [name for name in names if name not in known and name not in loaded.broken]
    if unknown:
        raise UsageError(f"no such model: {', '.join(unknown)}", hint=f"models: {', '.join(known) or 'none'}")
    progress = LockProgress()
    with Web(Meter(progress.read)) as web:
        command = LockCommand(directory, Access(web), progress, check=check, upgrade=upgrade)
        for name in names:
            try:
                if name not in known:
                    raise WeightsError("its file is not valid", hint="reconciler validate says why")  # noqa: TRY301  # told as the others
                command.one(known[name], loaded.partial.locks.get(name), named=bool(models))
            except WeightsError as error:
                command.failed(name, error)
    leave(command.close(len(names)))
