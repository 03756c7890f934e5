"""One thing wrong with one file, before the file's name and the model it belongs to are added to make a finding."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
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
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        else:
            written += f".{shorten(step)}" if written else shorten(step)
    return written


def shorten(text: str, limit: int = 40) -> str:
    """At most `limit` characters of a text, on one line; what was cut shows as an ellipsis."""
    flat = " ".join(printable(text[: limit * 2]).split())
    return flat if len(flat) <= limit and len(text) <= limit * 2 else f"{flat[: limit - 1]}…"
