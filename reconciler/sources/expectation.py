"""One error of pydantic's → what belongs there, in words, and what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.domain.base import NAME_PATTERN
from reconciler.domain.source import SOURCE_FORMS
from reconciler.sources import wording
from reconciler.sources.fault import shorten
from reconciler.sources.fields import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.desired import Path
    from reconciler.sources.fields import ObjectPath

_EXPECTED_BY_TYPE = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "dict": "fields, each as name: value",
    "model": "fields, each as name: value",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error of pydantic's, with its place in the document and in the schema."""

    kind: str
    context: Mapping[str, Any]
    message: str
    path: Path
    """As far as it exists in the document."""
    rest: Path
    """Steps that do not exist there: a missing field, a member of a union, `[key]`."""
    schema: ObjectPath
    value: Any
    written: str | None
    """A number as it was written: 1.10 rather than 1.1."""

    @property
    def secret(self) -> bool:
        """Whether the value must not be repeated."""
        return wording.is_secret(self.schema)

    @property
    def form(self) -> str | None:
        """What belongs there, where the type alone would not say."""
        is_item = bool(self.path) and isinstance(self.path[-1], int)
        return (wording.ITEM_FORMS if is_item else wording.FORMS).get(self.schema)

    @property
    def is_key(self) -> bool:
        """Whether the key is refused, not the value."""
        return "[key]" in self.rest


def expected(refusal: Refusal, value: Any) -> tuple[str, str | None]:
    """What belongs where `value` stands, and what to write where that can be told."""
    form = refusal.form
    if form is None or refusal.is_key or isinstance(value, dict):
        return _by_kind(refusal, value)
    if value is None:
        return form, "write a value, or remove the field"
    in_env = refusal.schema[-2:-1] == ("env",)
    return form, wording.as_text(value, refusal.written, secret=True) if in_env else None


def _by_kind(refusal: Refusal, value: Any) -> tuple[str, str | None]:
    match refusal.kind:
        case "enum":
            return _one_of(refusal, value)
        case "duration":
            return "a duration such as 90s, 30m, 2h or 1d", _duration(value)
        case "source":
            return _source(refusal, value)
        case "string_pattern_mismatch":
            pattern = refusal.context["pattern"]
            hint = wording.as_name(value) if pattern == NAME_PATTERN and not refusal.secret else None
            return wording.PATTERNS_IN_WORDS.get(pattern, f"text like {pattern}"), hint
        case "string_too_short":
            return "text that is not empty", None
        case "greater_than_equal":
            return f"at least {refusal.context['ge']}", None
        case "greater_than":
            return f"more than {refusal.context['gt']:g}", None
        case "less_than_equal":
            return f"at most {refusal.context['le']:,.15g}", None
        case _:
            return _by_type(refusal, value)


def _by_type(refusal: Refusal, value: Any) -> tuple[str, str | None]:
    kind = refusal.kind.partition("_")[0]
    expected = _EXPECTED_BY_TYPE.get(kind)
    if expected is None:
        # pydantic's own sentence; a ValueError of ours is left out, since it may quote the value.
        own = "another value" if refusal.kind in {"value_error", "assertion_error"} else refusal.message
        return f"{own[:1].lower()}{own[1:]}", None
    if value is None and kind != "string":
        return expected, "write a value, or remove the field"
    match kind:
        case "int" | "float":
            return expected, wording.as_number(value, fraction=kind == "float")
        case "bool":
            return expected, wording.as_boolean(value)
        case "string":
            return expected, wording.as_text(value, refusal.written, secret=refusal.secret)
        case "tuple" | "list":
            return expected, _as_list(refusal, value)
        case _:
            return expected, None


def _one_of(refusal: Refusal, value: Any) -> tuple[str, str | None]:
    choices = re.findall(r"'([^']*)'", refusal.context["expected"])
    near = nearest(value.lower(), choices) if isinstance(value, str) else None
    listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
    return listed, None if near is None else f"write {near}"


def _duration(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"write {value}s if seconds are meant"
    loose = re.fullmatch(r"\s*([0-9]{1,6})\s*(s|m|h|d)[a-z]*\s*", value.lower()) if isinstance(value, str) else None
    return None if loose is None else f"write {loose[1]}{loose[2]}"


def _source(refusal: Refusal, value: Any) -> tuple[str, str | None]:
    reason = str(refusal.context["reason"])
    if reason.startswith("expected ") and reason != f"expected {SOURCE_FORMS}":
        return reason.removeprefix("expected "), None
    bare = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", value)
    if bare:
        return SOURCE_FORMS, f"write hf:{value}@REVISION"
    return SOURCE_FORMS, reason if reason.startswith("plain http") else None


def _as_list(refusal: Refusal, value: Any) -> str | None:
    if isinstance(value, dict):
        return "put `- ` before the first field of each item"
    if refusal.secret:
        return "write one list item for each argument"
    if isinstance(value, list | None):
        return None
    return f"write [{shorten(str(refusal.written or value))}]"
