"""`lock`: resolve the sources of models and write what they were found to be."""

from __future__ import annotations

from typing import Annotated

import typer

from reconciler.cli.console import Context, note, out


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(lock)


def lock(
    context: typer.Context,
    models: Annotated[list[str] | None, typer.Argument(metavar="[MODEL]...", help="All models without it.")] = None,
) -> None:
    """Write what the sources of models are into cluster/locks."""
    from reconciler.controller.aim import check_worktree  # noqa: PLC0415  # keeps --help lean
    from reconciler.durable import make_private_directory  # noqa: PLC0415
    from reconciler.errors import UsageError  # noqa: PLC0415
    from reconciler.weights.lock_writer import make_lock, write_lock  # noqa: PLC0415

    options: Context = context.obj
    known = check_worktree(options.directory).loaded.partial.model_by_name
    unknown = [name for name in models or () if name not in known]
    if unknown:
        raise UsageError(f"no such model: {', '.join(unknown)}", hint=f"models: {', '.join(known) or 'none'}")
    make_private_directory(options.directory / "locks")
    for name in models or known:
        model = known[name]
        if model.external is not None:
            continue
        note(f"{name}: reading {model.source or 'the sources of its profiles'}")
        path = options.directory / "locks" / f"{name}.json"
        written = write_lock(path, make_lock(model))
        out(f"{name}: {'wrote' if written else 'unchanged'} {path}")
