"""`explain` and `schema`: what a rule or a field means, and the shape of the files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli.console import note, out


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(explain)
    app.command()(schema)


def explain(
    name: Annotated[str, typer.Argument(metavar="RULE|FIELD", help="Such as inventory/node-too-small, or gpus.")],
) -> None:
    """Tell what a rule checks and why, or what a field means."""
    from reconciler.errors import UsageError  # noqa: PLC0415  # keeps --help lean
    from reconciler.views.explain import explain as explanation  # noqa: PLC0415
    from reconciler.views.explain import nearest  # noqa: PLC0415

    text = explanation(name)
    if text is None:
        near = nearest(name)
        raise UsageError(
            f"{name!r} is neither a rule nor a field", hint=f"nearest: {', '.join(near)}" if near else None
        )
    out(text)


def schema(
    name: Annotated[str | None, typer.Argument(help="One schema; all names are listed without it.")] = None,
    out_directory: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write every schema into this directory.")
    ] = None,
) -> None:
    """Print a JSON Schema, or write them all."""
    from reconciler.durable import write_atomically  # noqa: PLC0415  # keeps --help lean
    from reconciler.errors import UsageError  # noqa: PLC0415
    from reconciler.views.schemas import schema_text, schemas  # noqa: PLC0415

    known = schemas()
    if out_directory is not None:
        if not out_directory.is_dir():
            raise UsageError(f"there is no directory {out_directory}")
        for each in known:
            write_atomically(out_directory / f"{each}.schema.json", schema_text(each).encode(), mode=0o644)
        note(f"{len(known)} schemas written to {out_directory}")
    elif name is None:
        out("\n".join(known))
    elif name not in known:
        raise UsageError(f"there is no schema {name!r}", hint=f"schemas: {', '.join(known)}")
    else:
        out(schema_text(name))
