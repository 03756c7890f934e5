"""Plain scalars → values, by the YAML 1.2 core schema; numerals that other readers take for something else are refused.

YAML 1.1, which many tools still read, takes `010` for 8, `1_000` for 1000 and `0b11` for 3; YAML 1.2 does not. A file
that means two things is refused rather than read one way. Timestamps, versions and hashes stay text.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

Scalar = str | int | float | bool | None

BOOLEAN_WORDS = {
    spelling: word in {"yes", "on"}
    for word in ("yes", "no", "on", "off")
    for spelling in (word, word.title(), word.upper())
}
"""Words that YAML 1.1 takes for true or false and YAML 1.2 for text; what those readers take them for."""

_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}

# Integers beyond this leave what 64 bits and JSON readers hold exactly; no count, port or size comes near.
_MAX_DIGITS = 18

_NUMERAL_START = frozenset("+-.0123456789")
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_PREFIXED = re.compile(r"[-+]?0(o[0-7_]+|x[0-9a-fA-F_]+|b[01_]+)")
_UNDERSCORES = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A numeral that is refused: why, and how its likely meaning is written."""

    reason: str
    """A clause that follows the numeral: `is ...`."""
    instead: str | None
    """A plain decimal number, where one is likely meant."""


def resolve(text: str) -> Scalar | Ambiguous:
    """The value of a plain (unquoted) scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERAL_START:
        return text
    ambiguous = _ambiguity(text)
    if ambiguous is not None:
        return ambiguous
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else Ambiguous("is too large for a number", None)
    return text


def _ambiguity(text: str) -> Ambiguous | None:
    if _INT.fullmatch(text) and len(text.lstrip("+-")) > _MAX_DIGITS:
        return Ambiguous(f"has more than {_MAX_DIGITS} digits", None)
    if _LEADING_ZERO.fullmatch(text):
        return Ambiguous("begins with 0, which some readers take for octal", _decimal(text, 10))
    if _PREFIXED.fullmatch(text):
        return Ambiguous("is a number to some readers and text to others", _decimal(text, 0))
    if "_" in text and _UNDERSCORES.fullmatch(text):
        return Ambiguous("is a number to some readers and text to others", text.replace("_", ""))
    if _NOT_FINITE.fullmatch(text):
        return Ambiguous("is not a number that can be counted with", None)
    return None


def _decimal(numeral: str, base: int) -> str | None:
    """The number in base 10 (base 0 reads the prefix); None where it holds no digit, or too many to be a count."""
    digits = numeral.replace("_", "")
    try:
        return str(int(digits, base)) if len(digits) <= _MAX_DIGITS else None
    except ValueError:
        return None
