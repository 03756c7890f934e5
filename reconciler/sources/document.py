"""What one YAML file says: plain values, the place of each, and what was wrong on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from reconciler.sources.masking import mask

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.domain.desired import Path
    from reconciler.sources.fault import Fault
    from reconciler.sources.masking import Broken, Span


class _Refused:
    """Stands where a value was refused; no field accepts it."""

    __slots__ = ()


REFUSED: Final = _Refused()
"""In `value` wherever a finding already says that the value cannot be taken."""


class Mark(Protocol):
    """A place in the text, line and column from 0: the parser's own marks and `Place` are such."""

    @property
    def line(self) -> int:
        """From 0."""
        ...

    @property
    def column(self) -> int:
        """From 0, in characters."""
        ...


_NUMBER = re.compile(r"[-+.0-9eE]+")
_NOTHING: Final[Mapping[str | int, Place]] = MappingProxyType({})


class Place:
    """Where one value begins, and the key it stands under; lines and columns from 0.

    A plain slotted class: one is made for every value of every file, and a dataclass costs twice as much.
    """

    __slots__ = ("column", "key_column", "key_line", "line", "steps")

    def __init__(self, mark: Mark, key: Mark) -> None:
        self.line = mark.line
        self.column = mark.column
        self.key_line = key.line
        self.key_column = key.column
        self.steps: Mapping[str | int, Place] = _NOTHING
        """Places of what is inside, by key or list position."""


class Later:
    """The places of a document that was read before: worked out when somebody asks where something stands."""

    __slots__ = ("_find", "_place")

    def __init__(self, find: Callable[[], Place]) -> None:
        self._find = find
        self._place: Place | None = None

    def place(self) -> Place:
        """That of the whole document."""
        if self._place is None:
            self._place = self._find()
        return self._place


@dataclass(frozen=True, slots=True)
class Start:
    """The mark of a file's first character."""

    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """One document; `value` means nothing unless `readable`."""

    value: Any
    readable: bool
    """False after a syntax error, for an empty document, or where it is too deep: there is nothing to check further."""
    root: Place | Later
    faults: tuple[Fault, ...]
    refused: frozenset[Path] = frozenset()
    """Where REFUSED stands."""
    incomplete: frozenset[Path] = frozenset()
    """Mappings of which a key was refused: that a field is missing there says nothing."""
    boolean_words: tuple[tuple[Path, str], ...] = ()
    """Unquoted `no`, `off`, `yes` and `on`: text here, and booleans to other readers."""
    source: str = ""
    """The text as it is; `shown_text` is what may be printed."""
    secret_spans: tuple[Span, ...] = ()
    broken: Broken | None = None

    @staticmethod
    def unreadable(faults: tuple[Fault, ...]) -> Document:
        """A file of which nothing can be read or shown."""
        return Document(None, readable=False, root=Place(Start(), Start()), faults=faults)

    def position(self, path: Path) -> tuple[int, int]:
        """Line and column of the value at a path, from 1; of what surrounds it where it was not written."""
        place = self._place(path)
        return place.line + 1, place.column + 1

    def key_position(self, path: Path) -> tuple[int, int]:
        """Line and column of the key at a path, from 1; of what surrounds it where it was not written."""
        place = self._place(path)
        return place.key_line + 1, place.key_column + 1

    def find(self, path: Path) -> tuple[Path, Path]:
        """The steps of a path that exist in the document, and those that do not, in order.

        A step that does not exist is skipped, not an end: pydantic names list positions where one mapping stands for
        a list, and members of a union.
        """
        found: list[str | int] = []
        rest: list[str | int] = []
        place = self._root()
        for step in path:
            inner = place.steps.get(step)
            if inner is None:
                rest.append(step)
            else:
                found.append(step)
                place = inner
        return tuple(found), tuple(rest)

    def at(self, path: Path) -> Any:
        """The value at an existing path."""
        value = self.value
        for step in path:
            if value is REFUSED:
                return value
            value = value[step]
        return value

    def written_number(self, path: Path) -> str | None:
        """The number at a path as it was written: `1.10` rather than 1.1."""
        place = self._place(path)
        lines = self.source.split("\n", place.line + 1)
        found = _NUMBER.match(lines[place.line], place.column) if place.line < len(lines) else None
        return None if found is None else found.group()

    def is_noise(self, path: Path) -> bool:
        """Whether a finding already covers this place, or what it lies in."""
        return any(path[:length] in self.refused for length in range(len(path) + 1)) if self.refused else False

    def shown_text(self) -> str:
        """The text with what may be secret blanked."""
        return mask(self.source, self.secret_spans, self.broken)

    def is_plain(self) -> bool:
        """Whether its value says all of it: there is nothing to find and nothing to hide."""
        return (
            self.readable
            and not (self.faults or self.boolean_words or self.secret_spans)
            and (self.shown_text() == self.source)
        )

    def _root(self) -> Place:
        return self.root.place() if isinstance(self.root, Later) else self.root

    def _place(self, path: Path) -> Place:
        place = self._root()
        for step in path:
            inner = place.steps.get(step)
            if inner is None:
                return place
            place = inner
        return place
