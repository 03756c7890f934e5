"""Foreign text inside Markdown as GitHub and GitLab read it: it formats nothing, links nothing and calls nobody."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reconciler.views.words import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARKED = re.compile(r"[\\`*_\[\]|~$]")
"""Punctuation that formats inside a line; a backslash before it makes it plain (CommonMark 2.4)."""
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_CALLING = re.compile(r"(?<!\w)@(?=[\w/])|@(?=[\w-]+\.\w)|#(?=\d)|:(?=//)|(?<=[wW]{3})\.")
"""What forges make links of after formatting, where a backslash does not help: people, mail, issues and addresses. In
a code span of its own the character stays what it is."""


def plain(text: str) -> str:
    """The text on one line, as it would read unformatted."""
    marked = _MARKED.sub(lambda found: f"\\{found[0]}", visible(text))
    entities = "".join(_ENTITIES.get(each, each) for each in marked)
    return _CALLING.sub(lambda found: f"`{found[0]}`", entities)


def code(text: str) -> str:
    """The text as a code span, in tables too; nothing for nothing."""
    shown = visible(text)
    if not shown.strip():
        return plain(shown)
    longest = max((len(each) for each in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    inner = f" {shown} " if shown[0] in "` " or shown[-1] in "` " else shown
    # Tables are cut into cells before code is looked for, so a bar is escaped even here.
    return f"{fence}{inner}{fence}".replace("|", "\\|")


def row(cells: Sequence[str]) -> str:
    """One line of a table; the cells are Markdown already."""
    return f"| {' | '.join(cells)} |"


def table_head(heads: Sequence[str], *, numbers: Sequence[int] = ()) -> list[str]:
    """The two lines that begin a table; columns of `numbers` stand to the right."""
    rules = ["---:" if column in numbers else "---" for column in range(len(heads))]
    return [row([plain(each) for each in heads]), row(rules)]
