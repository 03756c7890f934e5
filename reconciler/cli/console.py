"""What commands share: the global options, output formats, and printing."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.controller.aim import Aim
    from reconciler.domain.plan import Plan


class Context:
    """The global options: `directory` is the cluster directory itself."""

    # No dataclass: to make one costs a millisecond of the budget of --help.
    __slots__ = ("directory",)

    def __init__(self, directory: Path) -> None:
        self.directory = directory


class Format(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


def out(text: str) -> None:
    """Print a result, with one newline at its end."""
    typer.echo(harmless(text.rstrip("\n")))


def note(text: str) -> None:
    """Print something beside the result."""
    typer.echo(harmless(text), err=True)


def harmless(text: str) -> str:
    """The text with all that could move a cursor, hide or reorder written as an escape; its lines stay lines.

    Agents, engines' logs and commit messages speak through here: the last place where all of it passes.
    """
    from reconciler.views.words import visible  # noqa: PLC0415  # keeps --help lean

    return "\n".join(visible(line) for line in text.split("\n"))


def leave(code: int) -> NoReturn:
    """End the command with this exit code."""
    raise typer.Exit(code)


def is_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def note_uncommitted(directory: Path, aim: Aim) -> None:
    """Say when the work tree differs from the commit that is read, so that nobody waits for an edit to happen."""
    from reconciler.sources.repository import uncommitted  # noqa: PLC0415  # loads git

    if aim.sha is None:
        return
    files = uncommitted(directory, aim.sha)
    if files:
        shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")  # noqa: PLR2004
        one = len(files) == 1
        rest = "differs from" if one else "differ from"
        unread = "is not read; commit it first" if one else "are not read; commit them first"
        note(f"note: {shown} {rest} commit {aim.sha[:7]} and {unread}")


def on_this_clock(plan: Plan) -> Plan:
    """The plan with the ends of suspensions in this machine's time zone, for text; JSON and comments keep UTC."""
    held = (
        each.model_copy(update={"expires_at": each.expires_at and each.expires_at.astimezone()})
        for each in plan.held_back
    )
    return plan.model_copy(update={"held_back": tuple(held)}) if plan.held_back else plan


def commit_line(aim: Aim) -> str:
    """`commit 9c2f4e1 "subject" (author, 3 min ago)`, or that it is the work tree."""
    from reconciler.controller.attempt import wall_clock  # noqa: PLC0415  # keeps --help lean
    from reconciler.views.placement import age_text  # noqa: PLC0415

    if aim.commit is None:
        return "work tree (not committed; cannot be applied)"
    age = age_text((wall_clock() - aim.commit.committed_at).total_seconds())
    return f'commit {aim.commit.sha[:7]} "{aim.commit.subject}" ({aim.commit.author}, {age})'
