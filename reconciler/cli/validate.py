"""`validate`: which files are judged, against which base, and in which words the answer is given."""

from __future__ import annotations

import gc
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from reconciler import __version__
from reconciler.cli.console import Context, leave, note, out

if TYPE_CHECKING:
    from reconciler.controller.answers import Answer
    from reconciler.sources.tree import Tree

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""A file of GitHub's runner: what is appended to it is shown on the page of the run."""


class ReportFormat(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"
    JUNIT = "junit"
    MARKDOWN = "markdown"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(validate)


def validate(
    context: typer.Context,
    directory: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The cluster directory.")] = None,
    format: Annotated[ReportFormat, typer.Option(help="How to print the answer.")] = ReportFormat.TEXT,  # noqa: A002
    base: Annotated[
        str | None, typer.Option(metavar="REV", help="Say what changes since this commit, and what was there before.")
    ] = None,
    commit: Annotated[str | None, typer.Option(metavar="REV", help="Check this commit, not the work tree.")] = None,
    staged: Annotated[bool, typer.Option("--staged", help="Check what is staged, not the work tree.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read and judge every file again.")] = False,
) -> None:
    """Check the cluster directory: every finding at once. Exit 1 when one is an error, 2 when nothing could be read."""
    from reconciler.controller.answers import answer  # noqa: PLC0415  # keeps --help lean
    from reconciler.controller.cache import user_cache  # noqa: PLC0415
    from reconciler.errors import SourceError, UsageError  # noqa: PLC0415

    # One pass over a bounded number of objects, and the process ends: looking for cycles would take a tenth of it.
    gc.disable()
    options: Context = context.obj
    chosen = directory or options.directory
    if staged and commit is not None:
        raise UsageError("--staged and --commit name two things to check", hint="give one of them")
    try:
        found = answer(
            _tree(chosen, commit, staged=staged),
            None if base is None else _base(chosen, base),
            None if no_cache else user_cache(),
            str(chosen.absolute()),
        )
    except SourceError as error:
        # 1 is for findings; where nothing could be read there are none.
        raise UsageError(error.message, hint=error.hint) from error
    out(_worded(found, format))
    if format is ReportFormat.GITHUB:
        _summarise(found)
    leave(0 if found.report.ok else 1)


def _tree(directory: Path, commit: str | None, *, staged: bool) -> Tree:
    """What is to be judged."""
    from reconciler.errors import UsageError  # noqa: PLC0415  # keeps --help lean

    if commit is not None:
        from reconciler.sources.repository import read_tree  # noqa: PLC0415  # loads git

        return read_tree(directory, commit)
    if staged:
        from reconciler.sources.staged import read_staged  # noqa: PLC0415  # loads git

        return read_staged(directory)
    if not directory.is_dir():
        hint = "name the cluster directory: reconciler validate DIR"
        raise UsageError(f"there is no directory {directory}", hint=hint)
    from reconciler.sources.worktree import read_worktree  # noqa: PLC0415

    return read_worktree(directory)


def _base(directory: Path, revision: str) -> Tree:
    """The tree to compare with; empty where the commit has no cluster directory yet."""
    from reconciler.errors import NotInCommit  # noqa: PLC0415  # keeps --help lean
    from reconciler.sources.repository import read_tree  # noqa: PLC0415
    from reconciler.sources.tree import Tree  # noqa: PLC0415

    try:
        return read_tree(directory, revision)
    except NotInCommit as error:
        note(f"note: {error.message}, so everything counts as added")
        return Tree((), "")


def _worded(found: Answer, form: ReportFormat) -> str:
    """The answer in the words of a format; each loads only its own."""
    match form:
        case ReportFormat.TEXT:
            from reconciler.views.findings import findings_text  # noqa: PLC0415  # keeps --help lean

            return findings_text(found.report, found.texts)
        case ReportFormat.JSON:
            from reconciler.views.findings import findings_json  # noqa: PLC0415

            return findings_json(found.report)
        case ReportFormat.GITHUB:
            from reconciler.views.github import findings_github  # noqa: PLC0415

            return findings_github(found.report)
        case ReportFormat.SARIF:
            from reconciler.views.sarif import findings_sarif  # noqa: PLC0415

            return findings_sarif(found.report, found.texts, version=__version__)
        case ReportFormat.JUNIT:
            from reconciler.views.junit import findings_junit  # noqa: PLC0415

            return findings_junit(found.report, found.files)
        case ReportFormat.MARKDOWN:
            from reconciler.views.markdown import report_markdown  # noqa: PLC0415

            return report_markdown(found.report)
        case _ as never:
            assert_never(never)


def _summarise(found: Answer) -> None:
    """Add the report to the page of a run on GitHub, where this is one."""
    from reconciler.views.markdown import report_markdown  # noqa: PLC0415  # keeps --help lean

    path = os.environ.get(SUMMARY_VARIABLE)
    if path:
        try:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(f"{report_markdown(found.report)}\n")
        except OSError as error:
            note(f"note: {SUMMARY_VARIABLE} cannot be written ({error.strerror})")
