"""One lock file's bytes → what a model's sources were found to be, or every fault in it.

JSON is read by the JSON parser, which is quick and, unlike YAML, exact about escapes. Only to say *where* something is
wrong is the text read again as YAML, of which JSON is a part, for its positions.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from reconciler.domain.base import FORMAT_VERSION
from reconciler.domain.lock import Lock
from reconciler.sources.builder import DEPTH_LIMIT
from reconciler.sources.document import Document
from reconciler.sources.documents import parse
from reconciler.sources.fault import Fault, YamlRule, shorten
from reconciler.sources.reading import Reading
from reconciler.sources.text import decode_utf8, place
from reconciler.sources.validation import faults_of

# As for YAML: beyond 18 digits an integer is read as a float, which is what the field that has such values holds
# (model_max_length is 10^30 in many tokenizer configs).
_EXACT_DIGITS = 18

# The closing quote is optional so that an unfinished string is passed once, not once for each quote in it.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_VERSION = re.compile(r"(?P<major>[0-9]{1,9})\.[0-9]{1,9}")
_REWRITE = "run `reconciler lock` to write it again"


class _NotPlain(ValueError):
    """JSON that is valid, or nearly so, and not taken."""

    def __init__(self, rule: YamlRule, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message


def read_lock(data: bytes) -> Reading[Lock]:
    """Read one lock; unknown keys are ignored, so that a lock of a newer minor version stays good."""
    text = decode_utf8(data)
    if isinstance(text, Fault):
        return _failed(text)
    if not text.strip():
        return _failed(Fault(YamlRule.EMPTY, "the file is empty", _REWRITE, 1, 1))
    too_deep = _too_deep(text)
    if too_deep is not None:
        return _failed(too_deep)
    try:
        # Published configs hold Infinity and NaN (time_step_limit of Mamba 2): Python writes them, so they are read.
        value = json.loads(text, object_pairs_hook=_pairs, parse_int=_int, parse_float=_float)
        _refuse_lone_surrogates(text, value)
    except json.JSONDecodeError as error:
        return _failed(Fault(YamlRule.SYNTAX, f"not JSON: {error.msg}", _REWRITE, error.lineno, error.colno))
    except _NotPlain as error:
        return _refused(data, error)
    return _checked(data, value)


def _checked(data: bytes, value: Any) -> Reading[Lock]:
    newer = _newer(value)
    if newer is not None:
        document = parse(data)
        fault = Fault(YamlRule.TYPE, newer, "upgrade reconciler", *document.position(("format_version",)))
        return Reading(None, document, (fault,))
    try:
        return Reading(Lock.model_validate(value), Document.unreadable(()), ())
    except ValidationError as error:
        document = replace(parse(data), value=value, refused=frozenset(), incomplete=frozenset())
        faults = [fault if fault.hint else replace(fault, hint=_REWRITE) for fault in faults_of(error, Lock, document)]
        return Reading(None, document, tuple(faults))


def _newer(value: Any) -> str | None:
    """Why a lock of a format with a higher major version is not read further."""
    version = value.get("format_version") if isinstance(value, dict) else None
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    major = FORMAT_VERSION.partition(".")[0]
    if found is None or int(found["major"]) <= int(major):
        return None
    return f"this lock has format {version}; this version of reconciler reads {major}.x"


def _refused(data: bytes, error: _NotPlain) -> Reading[Lock]:
    """Say where: the YAML reading of the same text finds duplicate keys by itself."""
    document = parse(data)
    own = tuple(replace(fault, hint=_REWRITE) for fault in document.faults if fault.rule == error.rule)
    return Reading(None, document, own or (Fault(error.rule, error.message, _REWRITE, 1, 1),))


def _failed(fault: Fault) -> Reading[Lock]:
    return Reading(None, Document.unreadable((fault,)), (fault,))


def _too_deep(text: str) -> Fault | None:
    """Found before anything is built, since building recurses."""
    if text.count("[") + text.count("{") <= DEPTH_LIMIT:
        return None
    depth = 0
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in "[{":
            depth += 1
            if depth > DEPTH_LIMIT:
                message = f"nested more than {DEPTH_LIMIT} deep"
                return Fault(YamlRule.TOO_DEEP, message, _REWRITE, *place(text, token.start()))
        elif first in "]}":
            depth -= 1
    return None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # set.add is None
        raise _NotPlain(YamlRule.DUPLICATE_KEY, f"{shorten(twice)} is written twice")
    return value


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) <= _EXACT_DIGITS else _float(digits)


def _float(digits: str) -> float:
    return float(digits)


def _refuse_lone_surrogates(text: str, value: Any) -> None:
    """An escape can make half of a surrogate pair, which no digest or message can be made of."""
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise _NotPlain(YamlRule.SYNTAX, "an escape is half of a surrogate pair") from None
