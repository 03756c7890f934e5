"""Texts that engines write, made fit to be shown: on one line, and without anything that moves a terminal's cursor.

Stages and failures come from logs and answers of foreign programs, which colour them or quote what a request sent.
They are cleaned where they enter, so that journal, log, observation and every view hold the same plain words.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST = 1_000
"""Characters of one text: ten lines of a terminal; an engine may put a whole tensor into its last words."""

_READ = 8 * LONGEST
"""Characters of a text that are looked at: what is dropped may be seven eighths of them. One line may be megabytes."""

_ESCAPE = re.compile(
    r"""
    (?:\x1b\[|\x9b)[0-?]*[\ -/]*[@-~]                             # colours, cursor movement
    | (?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])                     # title, device and application strings
      [^\x07\x1b\x90\x98\x9c-\x9f\n]*(?:\x07|\x1b\\|\x9c)          # up to their end, when they have one
    | \x1b[\ -/]*[0-~]                                            # every other sequence, and the start of a broken one
    """,
    re.VERBOSE,
)
"""Escape sequences of ECMA-48, in their 7-bit and 8-bit forms."""

_SPACED = frozenset({"Cc", "Zl", "Zp", "Zs"})
"""Unicode categories that become a space: controls, line ends, spaces of other widths."""

_DROPPED = frozenset({"Cf", "Cs", "Co", "Cn"})
"""Categories without a shape of their own: bidi controls, zero-width and private characters, lone surrogates."""


def plain(text: str) -> str:
    """The text on one line in printable characters, at most `LONGEST` of them."""
    words = printable(text[:_READ])
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


def printable(text: str) -> str:
    """The text on one line in printable characters, however many: for texts whose length is bounded already."""
    without = _ESCAPE.sub("", text)
    shown = without if without.isprintable() else "".join(map(_shown, without))
    return " ".join(shown.split())


def _shown(character: str) -> str:
    category = unicodedata.category(character)
    if category in _DROPPED:
        return ""
    return " " if category in _SPACED else character
