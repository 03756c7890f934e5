"""How an engine's program reads one word of a flag's value: what it makes of it, or why it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.domain.flags import ValueType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reconciler.domain.flags import Flag

_THOUSANDS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_1024S = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SI = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

_SUFFIXED_NUMBER = r"(\d+(?:\.\d+)?)"
_NUMBER_IN_JSON = re.compile(r"(?<=[\s:,\[])\d+(\.\d+)?[kKmMgGtT](?=\s*[,}\]])")
"""vLLM takes 16k for a number inside its JSON flags."""

_LEADING_WHOLE = re.compile(r"\s*([+-]?\d+)")
_LEADING_NUMBER = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?|[+-]?nan)", re.IGNORECASE
)
_INT_RANGE = range(-(2**31), 2**31)
"""C++ int, which llama.cpp reads whole numbers into."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word as the program reads it."""

    value: Any
    """int, float, str, parsed JSON, or None for no value."""
    refused: str | None = None
    """What was expected, when the program refuses the word."""
    misread: str | None = None
    """What it makes of the word, when that is not what the word says."""


def read_word(flag: Flag, word: str) -> Word:
    """Read one word of the flag's value."""
    if word in flag.also:
        return Word(word)
    if flag.nullable and word in {"", "None"}:
        return Word(None)
    try:
        value = _READERS[flag.type](word)
    except ValueError as refusal:
        return Word(None, refused=_expected(flag, str(refusal)))
    if flag.choices and str(value) not in flag.choices:
        return Word(None, refused=_expected(flag, "one of " + ", ".join(flag.choices)))
    if isinstance(value, int) and not (value if flag.least is None else flag.least) <= value <= (
        value if flag.most is None else flag.most
    ):
        return Word(None, refused=_expected(flag, _range(flag)))
    return Word(value, misread=_misread(flag.type, word, value))


def _range(flag: Flag) -> str:
    bounds = [f"{name} {bound}" for name, bound in (("from", flag.least), ("to", flag.most)) if bound is not None]
    return " ".join(["a whole number", *bounds])


def _expected(flag: Flag, what: str) -> str:
    return " or ".join((what, *flag.also))


def _misread(kind: ValueType, word: str, value: Any) -> str | None:
    if kind not in {ValueType.LEADING_WHOLE, ValueType.LEADING_NUMBER}:
        return None
    pattern = _LEADING_WHOLE if kind is ValueType.LEADING_WHOLE else _LEADING_NUMBER
    found = pattern.match(word)
    return f"{value:g}" if found and found.end() < len(word) else None


def _text(word: str) -> str:
    return word


def _whole(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError("a whole number") from None


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError("a number") from None


def _suffixed(word: str) -> int:
    found = re.fullmatch(_SUFFIXED_NUMBER + "([kKmMgGtT])", word.strip())
    if found is None:
        try:
            return int(word)
        except ValueError:
            raise ValueError("a whole number, or one such as 8k (8000) or 8K (8192)") from None
    number, suffix = found[1], found[2]
    if suffix in _THOUSANDS:
        return int(float(number) * _THOUSANDS[suffix])
    if "." in number:
        raise ValueError(f"a whole number before {suffix}, or {number}{suffix.lower()}")
    return int(number) * _1024S[suffix]


def _suffixed_or_auto(word: str) -> int | str:
    plain = word.strip()
    if plain == "-1" or plain.lower() == "auto":
        return "auto"
    try:
        return _suffixed(word)
    except ValueError as refusal:
        raise ValueError(f"{refusal}, or auto") from None


def _si_suffixed(word: str) -> int:
    found = re.fullmatch(_SUFFIXED_NUMBER + "(Ki|Mi|Gi|Ti|k|M|G|T)", word.strip())
    if found is None:
        try:
            return int(word)
        except ValueError:
            raise ValueError("a whole number, or one such as 8k (8000) or 8Ki (8192)") from None
    number, suffix = found[1], found[2]
    if suffix in _SI:
        return int(float(number) * _SI[suffix])
    if "." in number:
        raise ValueError(f"a whole number before {suffix}, or {number}{suffix[0]}")
    return int(number) * _IEC[suffix]


def _leading_whole(word: str) -> int:
    found = _LEADING_WHOLE.match(word)
    if found is None or int(found[1]) not in _INT_RANGE:
        raise ValueError("a whole number")
    return int(found[1])


def _leading_number(word: str) -> float:
    found = _LEADING_NUMBER.match(word)
    if found is None:
        raise ValueError("a number")
    return float(found[1])


def _folded(word: str) -> str:
    return word.lower().replace("-", "_")


def _json(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        raise ValueError("JSON") from None


def _json_object(word: str) -> Any:
    value = _json(_NUMBER_IN_JSON.sub("0", word))
    if not isinstance(value, dict):
        raise ValueError("a JSON object")  # noqa: TRY004  # a value of the wrong kind, not a wrong type of argument
    return value


def _json_or_text(word: str) -> Any:
    return _json(word) if re.fullmatch(r"\s*\{.*\}\s*", word, re.DOTALL) else word


_READERS: Mapping[ValueType, Callable[[str], Any]] = {
    ValueType.TEXT: _text,
    ValueType.OWN: _text,
    ValueType.WHOLE: _whole,
    ValueType.NUMBER: _number,
    ValueType.SUFFIXED: _suffixed,
    ValueType.SUFFIXED_OR_AUTO: _suffixed_or_auto,
    ValueType.SI_SUFFIXED: _si_suffixed,
    ValueType.LEADING_WHOLE: _leading_whole,
    ValueType.LEADING_NUMBER: _leading_number,
    ValueType.FOLDED: _folded,
    ValueType.JSON: _json,
    ValueType.JSON_OBJECT: _json_object,
    ValueType.JSON_OR_TEXT: _json_or_text,
}
