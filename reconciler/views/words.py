"""Plain text that is safe to print: nothing in it moves the cursor, hides, or reorders what is read."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_ASCII = re.compile(r"[^ -~]")
_LAST_BYTE, _LAST_SHORT = 0xFF, 0xFFFF
"""Largest code points of the escapes with two and with four digits."""


def visible(text: str) -> str:
    """The text on one line, with every character that could mislead a reader written as an escape.

    These are controls, bidi overrides, zero-width and private characters, lone surrogates, and spaces other than ' '.
    """
    return _NOT_ASCII.sub(lambda found: shown(found[0]), text)


def shown(character: str) -> str:
    r"""A character as `visible` writes it: itself, or an escape such as `\n`, `\x1b` or `\u202e`."""
    if character.isprintable():
        return character
    named = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(character)
    if named is not None:
        return named
    code = ord(character)
    if code <= _LAST_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_SHORT else f"\\U{code:08x}"


def width(text: str) -> int:
    """Columns the text takes in a terminal: two for wide characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


def counted(count: int, word: str) -> str:
    """`1 model`, `2 models`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def spans(numbers: Sequence[int]) -> str:
    """Ascending numbers, runs of four and more as spans: `1 to 8, 16`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shortest_span = 4
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) >= shortest_span else ", ".join(map(str, run)) for run in runs
    )


def json_text(value: Any) -> str:
    """Plain data as indented JSON with a newline at its end; what `visible` would escape is escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return _NOT_ASCII.sub(lambda found: _json_shown(found[0]), text) + "\n"


def _json_shown(character: str) -> str:
    return character if character == "\n" or character.isprintable() else json.dumps(character)[1:-1]
