"""Files that were read before, known by what is in them: a fleet changes one file at a time.

Within a process whole readings are kept. Between processes only plain values are, of files without a finding and
without anything masked, so that nothing secret is ever written down; their places are worked out when asked for.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, TypeVar, cast

from reconciler.sources.document import Document, Later
from reconciler.sources.documents import parse
from reconciler.sources.locks import read_lock
from reconciler.sources.reading import Reading, read
from reconciler.sources.recent import Recent
from reconciler.sources.text import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from pydantic import BaseModel

    from reconciler.domain.lock import Lock
    from reconciler.sources.document import Place

_SUSPECT = re.compile(r"key|secret|passw|credential|bearer|token(?!s\b|iz)")
"""Words that may stand beside a secret. The gate refuses secrets in plain text and masks what has the form of one; a
file with one of these words is read again instead, which costs 0.1 ms."""

Spec = TypeVar("Spec", bound="BaseModel")
Value = TypeVar("Value")


class Readings:
    """Readings by the type of a file and its bytes."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        """`values` are those of an earlier process, as `plain_values` gave them."""
        self._values = values or {}
        self._files: Recent[tuple[str, bytes], Reading[Any]] = Recent()
        self._following: Recent[Hashable, Any] = Recent()

    def yaml(self, spec: type[Spec], data: bytes) -> Reading[Spec]:
        """What `reading.read` says of these bytes."""
        return self._reading(spec.__name__, data, lambda: self._remembered(spec, data) or read(spec, data))

    def lock(self, data: bytes) -> Reading[Lock]:
        """What `locks.read_lock` says of these bytes."""
        return self._reading("", data, lambda: read_lock(data))

    def follows(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What follows from files alone, as `key` names them by content: made once, and kept while it is in use."""
        found = self._following.find(key)
        # A key names what was asked too, so what is found under it is of that type.
        return cast("Value", found) if found is not None else self._following.keep(key, make())

    def turn(self) -> None:
        """A tree was read: what it did not hold, nor the one before it, is forgotten."""
        self._files.turn()
        self._following.turn()

    def plain_values(self) -> dict[str, Any]:
        """What may be written down of the files in use: see above."""
        values = {}
        for (spec, data), reading in self._files.in_use().items():
            name = _name(spec, data) if spec else ""
            # What an earlier process wrote down was looked at then.
            if name in self._values or (name and _may_be_written_down(reading)):
                values[name] = reading.document.value
        return values

    def _reading(self, spec: str, data: bytes, make: Callable[[], Reading[Spec]]) -> Reading[Spec]:
        found = self._files.find((spec, data))
        # A key holds the type's name, so what is found under it is of that type.
        return cast("Reading[Spec]", found) if found is not None else self._files.keep((spec, data), make())

    def _remembered(self, spec: type[Spec], data: bytes) -> Reading[Spec] | None:
        if not self._values:
            return None
        value = self._values.get(_name(spec.__name__, data))
        text = decode(data) if value is not None else None
        if not isinstance(text, str):
            return None
        root = Later(lambda: _places(data))
        return Reading(
            spec.model_validate(value), Document(value, readable=True, root=root, faults=(), source=text), ()
        )


def _may_be_written_down(reading: Reading[Any]) -> bool:
    document = reading.document
    return not (reading.faults or _SUSPECT.search(document.source.lower())) and document.is_plain()


def _name(spec: str, data: bytes) -> str:
    return f"{spec}:{hashlib.sha256(data).hexdigest()}"


def _places(data: bytes) -> Place:
    root = parse(data).root
    return root.place() if isinstance(root, Later) else root
