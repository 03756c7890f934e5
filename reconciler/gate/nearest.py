"""The right spelling that a wrong one most likely meant."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CLOSE = 0.8
"""Difflib ratio of one slip in a word of five letters or more."""
_NEAR = 0.6
"""Difflib's own default: below it suggestions read as random."""
_SHORTEST_PART = 3
"""Shorter parts occur in too many names to mean anything."""
_COMPARED = 200
"""Names that difflib compares in 1 ms; of more, only those that begin or end like the word are."""
_ALIKE = 2
"""Characters at either end that make two words worth comparing."""


class Spellings:
    """Known names, prepared for many questions: a removed name may be asked for a thousand times."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._plain = tuple((_plain(name), name) for name in self.names)
        self._first_words = tuple((_first_word(name), name) for name in self.names)
        self._answer_by_word: dict[str, str | None] = {}

    def nearest(self, word: str) -> str | None:
        """The name that `word` most likely meant, or None; of equally good ones the first.

        Case and punctuation are forgiven first (`RTX4090`), then a name cut short (`h100` for `h100-80gb`: difflib
        alone would say h200) or decorated (`nvidia-h100-80gb-hbm3`), then slips, then a common first word.
        """
        if word not in self._answer_by_word:
            self._answer_by_word[word] = self._search(word) if _plain(word) else None
        return self._answer_by_word[word]

    def _search(self, word: str) -> str | None:
        plain, first_word = _plain(word), _first_word(word)
        return (
            next((name for each, name in self._plain if each == plain), None)
            or next((name for each, name in self._plain if each.startswith(plain)), None)
            or self._longest_part(plain)
            or self._similar(word, _CLOSE)
            or next((name for each, name in self._first_words if each == first_word), None)
            or self._similar(word, _NEAR)
        )

    def _longest_part(self, plain: str) -> str | None:
        parts = [(each, name) for each, name in self._plain if len(each) >= _SHORTEST_PART and each in plain]
        return max(parts, key=lambda part: len(part[0]))[1] if parts else None

    def _similar(self, word: str, cutoff: float) -> str | None:
        lower = word.lower()
        names: Sequence[str] = self.names
        if len(names) > _COMPARED:
            names = [name for name in names if name[:_ALIKE] == lower[:_ALIKE] or name[-_ALIKE:] == lower[-_ALIKE:]]
        return next(iter(difflib.get_close_matches(lower, names, n=1, cutoff=cutoff)), None)


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that `word` most likely meant, or None; see `Spellings` for many questions."""
    return Spellings(names).nearest(word)


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _first_word(word: str) -> str:
    return re.split(r"[^a-z0-9]", word.lower(), maxsplit=1)[0]
