"""`fit`: what each GPU would hold, for every count and class, before anything is started."""

from __future__ import annotations

from typing import Annotated

import typer

from reconciler.cli.bounds import between
from reconciler.cli.console import Context, Format, leave, out

MOST_TOKENS, MOST_PARTS = 100_000_000, 1_000_000
"""As the fields of the same names take (`domain.base`, which is not loaded here: it would cost --help 60 ms)."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fit)


def fit(
    context: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(metavar="MODEL|SOURCE", help="A model of the catalog, or hf:… https:… file:… package:…"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every model of the catalog.")] = False,
    declared: Annotated[bool, typer.Option("--declared", help="Only the counts that profiles declare.")] = False,
    tokens: Annotated[
        int | None,
        typer.Option("--context", metavar="N", callback=between(1, MOST_TOKENS), help="Tokens one request may use."),
    ] = None,
    engine: Annotated[str | None, typer.Option("--engine", metavar="E", help="Only this engine.")] = None,
    gpu_class: Annotated[
        str | None, typer.Option("--gpu-class", metavar="C", help="This GPU class, whether a node has it or not.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", metavar="N", callback=between(1, 64), help="Only this count.")
    ] = None,
    kv_cache_dtype: Annotated[
        str | None, typer.Option("--kv-cache-dtype", metavar="T", help="As if profiles said so.")
    ] = None,
    memory_share: Annotated[
        float | None,
        typer.Option("--memory-share", metavar="X", callback=between(0, 1), help="As if profiles said so."),
    ] = None,
    max_concurrency: Annotated[
        int | None,
        typer.Option("--max-concurrency", metavar="N", callback=between(1, MOST_PARTS), help="As if profiles said so."),
    ] = None,
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", metavar="V", help="As if profiles said version: V.")
    ] = None,
    memory_gib: Annotated[
        float | None,
        typer.Option(
            "--memory-gib", metavar="N", callback=between(0.001, MOST_PARTS), help="Host RAM, as if profiles said so."
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.TEXT,  # noqa: A002
) -> None:
    """Show what each GPU would hold, for every GPU count and class that the engine takes.

    A MODEL is read from the work tree and its lock; a SOURCE is looked at where it is, by its headers alone, and needs
    --context. A SOURCE is shown on the GPU classes of cluster/, without any on a card of each usual size. Nothing is
    written. ▸ marks what a profile declares.
    Exit 0 when every declared option fits or is tight (of a SOURCE any option), 1 when not or unknown.
    """
    from reconciler.cli.fitting import FitCommand, WhatIf, narrowing  # noqa: PLC0415  # keeps --help lean
    from reconciler.views.fit import fit_json, fit_text, overview_text  # noqa: PLC0415

    options: Context = context.obj
    changes = {
        "kv_cache_dtype": kv_cache_dtype,
        "memory_share": memory_share,
        "max_concurrency": max_concurrency,
        "version": engine_version,
        "memory_gib": memory_gib,
    }
    what_if = WhatIf(tokens, {name: value for name, value in changes.items() if value is not None})
    wanted = narrowing(declared=declared, engine=engine, gpu_class=gpu_class, gpus=gpus)
    report = FitCommand(options.directory, wanted, what_if).report(what, every=every)
    if format is Format.JSON:
        out(fit_json(report))
    else:
        out(overview_text(report) if every and declared else fit_text(report))
    leave(0 if report.passes else 1)
