"""Text of a file as it may be shown: values under `env` and what looks like a secret are blanked, columns stay.

Findings are printed with the lines they point at, in terminals, CI logs and pull requests. Secrets are not supposed to
be in `cluster/`; where somebody put one, its finding must not publish it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from reconciler.gate.secrets import redacted_source

if TYPE_CHECKING:
    from collections.abc import Sequence

_USER_INFO = re.compile(r"://[^\s/@]+@")
_VISIBLE = re.compile(r"\S")
_ENV_KEY = re.compile(r"\benv[\"']?\s*:")
_BLANK = "*"


class Span(NamedTuple):
    """Part of a text, from line and column to line and column, all from 0; the end is not in it."""

    line: int
    column: int
    end_line: int
    end_column: int


class Broken(NamedTuple):
    """Where the parser stopped understanding: what follows cannot be told from secrets and is not shown."""

    line: int
    """Last line to show, from 0: the one of the finding."""
    known_line: int
    known_column: int
    """End of what was understood."""
    inside_env: bool


def mask(text: str, spans: Sequence[Span], broken: Broken | None) -> str:
    """The text with every span blanked."""
    if not spans and broken is None:
        return _forms(text)
    lines = text.split("\n")
    for span in spans:
        _blank(lines, span)
    if broken is not None:
        lines = lines[: broken.line + 1]
        start = Span(broken.known_line, broken.known_column, broken.line, len(lines[-1]) if lines else 0)
        if broken.inside_env:
            _blank(lines, start)
        else:
            _blank_after_env(lines, start)
    return _forms("\n".join(lines))


def _forms(text: str) -> str:
    """What can be told by its form, wherever it stands: also in `args`, labels and comments."""
    return redacted_source(_USER_INFO.sub(_blanked, text) if "@" in text else text)


def _blanked(found: re.Match[str]) -> str:
    return f"://{_BLANK * (len(found.group()) - len('://@'))}@"


def _blank(lines: list[str], span: Span) -> None:
    for number in range(span.line, min(span.end_line + 1, len(lines))):
        start = span.column if number == span.line else 0
        end = span.end_column if number == span.end_line else len(lines[number])
        line = lines[number]
        lines[number] = line[:start] + _VISIBLE.sub(_BLANK, line[start:end]) + line[end:]


def _blank_after_env(lines: list[str], rest: Span) -> None:
    for number in range(rest.line, len(lines)):
        found = _ENV_KEY.search(lines[number], rest.column if number == rest.line else 0)
        if found is not None:
            _blank(lines, Span(number, found.end(), rest.end_line, rest.end_column))
            return
