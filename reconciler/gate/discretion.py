"""Values of fields as a report may show them: what may be a secret is left out (promise 9).

Variables never come here with their text (`planning.difference`). What is left are passwords in addresses, and
arguments that carry a key or a token; people do write them, and the report goes to pull requests.
"""

from __future__ import annotations

import re
from typing import Any

from reconciler.gate.secrets import kind_of, redacted_source

HIDDEN = "***"

_USER_INFO = re.compile(r"(?<=://)[^\s/@]+(?=@)")
_SECRET_FLAG = re.compile(r"(?i)^--?[\w.-]*(?:key|token|secret|password|passwd|credentials?)$")


def discreet(value: Any) -> Any:
    """The value as plain JSON, with its secrets replaced by HIDDEN."""
    match value:
        case str():
            return _text(value)
        case [*items] if all(isinstance(item, str) for item in items):
            return _arguments(items)
        case [*items]:
            return [discreet(item) for item in items]
        case dict():
            return {key: discreet(inner) for key, inner in value.items()}
        case _:
            return value


def _text(value: str) -> str:
    """Text without what has the form of a secret, or stands under the name of one, as in JSON that is an argument."""
    shown = _USER_INFO.sub(HIDDEN, value)
    return HIDDEN if kind_of(shown) else redacted_source(shown)


def _arguments(words: list[str]) -> list[str]:
    """A command line: the value of `--api-key` is hidden, whether it stands behind it or after a `=`."""
    told: list[str] = []
    hide_next = False
    for word in words:
        flag, equals, _ = word.partition("=")
        is_secret = _SECRET_FLAG.match(flag) is not None
        if hide_next and not word.startswith("-"):
            told.append(HIDDEN)
        elif is_secret and equals:
            told.append(f"{flag}={HIDDEN}")
        else:
            told.append(_text(word))
        hide_next = is_secret and not equals
    return told
