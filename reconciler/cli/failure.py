"""An error as a person sees it: what happened and what to do, on stderr; and the exit code that goes with it."""

from __future__ import annotations

import sys
import tempfile
import traceback

from reconciler.cli.console import note
from reconciler.errors import ClaimRefused, InvalidCluster, ReconcilerError, StalePlan, UsageError, flattened

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_STALE = 4
EXIT_HELD = 5


def report_failure(error: Exception) -> int:
    """Print it; 5 when another reconciler holds the fleet, 4 for a stale plan, 2 for wrong usage, else 1."""
    errors = [each for each in flattened(error) if isinstance(each, Exception)]
    known = [each for each in errors if isinstance(each, ReconcilerError)]
    if not known:
        return _usage_or_fault(error)
    for each in known:
        say(each)
    if any(isinstance(each, ClaimRefused) for each in known):
        return EXIT_HELD
    if any(isinstance(each, StalePlan) for each in known):
        return EXIT_STALE
    return EXIT_USAGE if all(isinstance(each, UsageError) for each in known) else EXIT_FAILED


def say(error: ReconcilerError) -> None:
    """One error with its hint; a refused cluster with every finding."""
    if isinstance(error, InvalidCluster):
        from reconciler.views.findings import findings_lines  # noqa: PLC0415  # only when something failed

        for line in findings_lines(error.findings):
            note(line)
    note(f"error: {error.message}")
    for action in error.actions if isinstance(error, StalePlan) else ():
        note(f"  {action}")
    if error.hint:
        note(f"  fix: {error.hint}")


def _usage_or_fault(error: Exception) -> int:
    show = getattr(error, "show", None)  # typer's own usage errors know how to print themselves
    code = getattr(error, "exit_code", None)
    if callable(show) and isinstance(code, int):
        show(file=sys.stderr)
        return code
    with tempfile.NamedTemporaryFile("w", prefix="reconciler-fault-", suffix=".txt", delete=False) as file:
        traceback.print_exception(error, file=file)
    note(f"error: {type(error).__name__}: {error}")
    note(f"  this is a fault in reconciler itself; details are in {file.name}")
    return EXIT_FAILED
