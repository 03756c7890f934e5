"""The `reconciler` command: its groups, its global options, and the outermost error handler."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from reconciler import __version__
from reconciler.cli import agent, apply, fit, gate, init, intents, lock, plan, run, status, validate, why
from reconciler.cli.console import Context

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

USAGE_IS_FAILURE = frozenset({"plan", "apply"})
"""Commands that answer 1 to wrong usage, since 2 means `changes` to `plan --detailed-exitcode` (design section 4)."""

OUTPUT_LOST = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a write to stdout can end with. Files that a command writes itself have their own messages."""

DEBUG_VARIABLE = "RECONCILER_DEBUG"

app = typer.Typer(
    name="reconciler",
    help="GitOps for LLM serving on plain GPU nodes.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"reconciler {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Option("-C", metavar="DIR", help="The cluster directory itself.", show_default=True)
    ] = Path("cluster"),
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """GitOps for LLM serving on plain GPU nodes."""
    del version  # its callback has answered
    context.obj = Context(directory)


for group in (validate, gate, fit, plan, apply, run, status, why, intents, lock, agent, init):
    group.register(app)


def main() -> NoReturn:
    """Run the command line and exit with its code; every error is one message, never a traceback."""
    code = outcome(sys.argv[1:])
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # Python has none for a descriptor that the caller closed (`>&-`)
                stream.flush()
    except OSError as error:  # `reconciler status | head`, or a full disk behind `>`
        code = _lost(error)
    # Nothing is left to do: taking the interpreter apart would cost every command 10 ms, a fifth of --help's budget.
    os._exit(code)


def outcome(arguments: list[str]) -> int:
    """Run the command line; its exit code."""
    try:
        result = app(arguments, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the outermost handler: a person reads one message
        return _failed(error, arguments)
    return result if isinstance(result, int) else 0


def _lost(error: OSError) -> int:
    """The result went nowhere: said on stderr, except to a pipe whose reader has had enough (`| head`)."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno != errno.EPIPE:
        from reconciler.cli.console import note  # noqa: PLC0415  # only when something failed

        with suppress(OSError):
            note(f"error: the result cannot be written: {error.strerror}")
            note("  fix: free space where the output goes, and run it again")
    return EXIT_FAILED


def _failed(error: Exception, arguments: list[str]) -> int:
    """Say what went wrong, and choose the exit code."""
    from reconciler.cli.failure import report_failure  # noqa: PLC0415  # only when something failed
    from reconciler.errors import flattened  # noqa: PLC0415

    for each in flattened(error):
        if isinstance(each, OSError) and each.errno in OUTPUT_LOST and each.filename is None:
            return _lost(each)
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    code = report_failure(error)
    if code == EXIT_USAGE and USAGE_IS_FAILURE.intersection(arguments):
        return EXIT_FAILED
    return code
