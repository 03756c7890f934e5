"""One thing wrong with one file, before the file's name and the model it belongs to are added to make a finding."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.gate.secrets import redacted
from reconciler.sources.tree import printable

if TYPE_CHECKING:
    from reconciler.domain.desired import Path


class YamlRule(StrEnum):
    """The `yaml/` rules of design section 5: what reading can say."""

    SYNTAX = "yaml/syntax"
    DUPLICATE_KEY = "yaml/duplicate-key"
    UNKNOWN_FIELD = "yaml/unknown-field"
    TYPE = "yaml/type"
    EMPTY = "yaml/empty"
    ALIAS = "yaml/alias"
    DIRECTIVE = "yaml/directive"
    TAG = "yaml/tag"
    TOO_LARGE = "yaml/too-large"
    TOO_DEEP = "yaml/too-deep"
    NOT_A_FILE = "yaml/not-a-file"
    NAME_MISMATCH = "yaml/name-mismatch"
    DUPLICATE_NAME = "yaml/duplicate-name"


ENV = "env"
"""The key below which values may be secrets."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a key under it looks like; others may hold the value too."""
_BEFORE_VALUE = re.compile(rf"(?P<name>{VARIABLE.pattern})\s*[=:]")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, where in the file, and what to do; line and column from 1, None where the whole file is meant."""

    rule: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None
    path: Path = ()
    """Of the field, as far as it is known; tells which profile is meant."""
    severity: Severity = Severity.ERROR


def display(path: Path) -> str:
    """Write a path as people do: `profiles[0].gpus`; empty for the whole document."""
    written = ""
    for at, step in enumerate(path):
        if isinstance(step, int):
            written += f"[{step}]"
        else:
            named = shown_key(step, path[:at])
            written += f".{named}" if written else named
    return written


def shown_key(key: str, path: Path) -> str:
    """A key below a path; under `env`, where `NAME=VALUE` may stand for `NAME: VALUE`, no more of it than the name."""
    if ENV not in path or VARIABLE.fullmatch(key):
        return shorten(key)
    found = _BEFORE_VALUE.match(key)
    return f"{shorten(found['name'])}…" if found else "…"


def shorten(text: str, limit: int = 40) -> str:
    """At most `limit` characters of a text, on one line; what was cut shows as an ellipsis.

    What has the form of a secret is blanked before it is cut, since half of one has its form no more (promise 9).
    """
    text = redacted(text)
    flat = " ".join(printable(text[: limit * 2]).split())
    return flat if len(flat) <= limit and len(text) <= limit * 2 else f"{flat[: limit - 1]}…"
