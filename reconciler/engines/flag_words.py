"""Which flag a word is, by the habits of the engine's own parser; and which one was meant when it is none."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.domain.flags import Flag, FlagTable

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_GLUED_VALUE = re.compile(r"(--?[A-Za-z][A-Za-z_-]*?)(\d.*)")
_CLOSE = 0.6
"""difflib's own default: below it suggestions read as random."""
_SLIP = 0.9
"""One slip in a flag of usual length: then there is nothing more to suggest."""
_SUGGESTIONS = 3


@dataclass(frozen=True, slots=True)
class Hit:
    """The word is this flag."""

    flag: Flag
    spelling: str
    """In full, as the table spells it."""
    value: str | None = None
    """What the same word gives as its value."""


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The word is the beginning of several flags."""

    spellings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """The word looks like a flag and is none."""


@dataclass(frozen=True, slots=True)
class Plain:
    """The word is no flag: a value, or stray."""


@dataclass(frozen=True, slots=True)
class Meant:
    """The flag that a word most likely stands for, and what is wrong with its form."""

    flag: Flag
    spelling: str
    wrong: str
    """What this program does not do, and what to write instead."""


def match(table: FlagTable, word: str) -> Hit | Ambiguous | Unknown | Plain:
    """Decide it as the parser would."""
    if len(word) < 2 or not word.startswith("-"):  # noqa: PLR2004  # a lone dash is a value everywhere
        return Plain()
    word = normal(table, word)
    if word in table.by_spelling:
        return Hit(table.by_spelling[word], word)
    head, equals, value = word.partition("=")
    if equals and table.grammar.equals and head in table.by_spelling:
        return Hit(table.by_spelling[head], head, value)
    if table.grammar.any_value:
        return Unknown()
    hits = _beginnings(table, word)
    if len(hits) > 1:
        return Ambiguous(tuple(hit.spelling for hit in hits))
    if hits:
        return hits[0]
    return Plain() if _NEGATIVE_NUMBER.fullmatch(word) or " " in word else Unknown()


def normal(table: FlagTable, word: str) -> str:
    """The word as the parser looks it up: underscores of a long flag as dashes where it reads them so."""
    if not table.grammar.underscores_as_dashes or not word.startswith("--"):
        return word
    head, equals, value = word.partition("=")
    if table.grammar.dotted:
        name, dot, path = head.partition(".")
        return name.replace("_", "-") + dot + path + equals + value
    return head.replace("_", "-") + equals + value


def _beginnings(table: FlagTable, word: str) -> list[Hit]:
    """Argparse's guesses: beginnings of long flags; of short ones too, or a one-letter flag with its value glued on."""
    if not table.grammar.prefixes:
        return []
    if word.startswith("--"):
        head, equals, value = word.partition("=")
        given = value if equals else None
        return [Hit(flag, each, given) for each, flag in table.by_spelling.items() if each.startswith(head)]
    hits = [Hit(flag, each) for each, flag in table.by_spelling.items() if each.startswith(word)]
    letter = table.by_spelling.get(word[:2]) if table.grammar.glued else None
    return [*hits, Hit(letter, word[:2], word[2:])] if letter else hits


def meant(table: FlagTable, word: str) -> Meant | None:
    """The flag behind a word in a form that this program does not take; None when it resembles none."""
    word = normal(table, word)
    head, equals, value = word.partition("=")
    if equals and not table.grammar.equals and head in table.by_spelling:
        return Meant(table.by_spelling[head], head, f"takes no =: write {head} and {value} as two entries")
    first, _, rest = word.partition(" ")
    if rest and (found := _exact(table, first)):
        return Meant(*found, f"gets one entry with a space in it: write {first} and {rest.strip()} as two entries")
    for respelled, wrong in (
        ("--" + head[2:].replace("_", "-"), "is spelled with dashes"),
        ("--" + head[2:].replace("-", "_"), "is spelled with underscores"),
        ("-" + head, "has two dashes"),
        (head.removeprefix("-"), "has one dash"),
        ("--" + head, "begins with two dashes"),
    ):
        if respelled != head and (found := _exact(table, respelled)):
            return Meant(*found, f"{wrong}: write {respelled}{equals}{value}")
    glued = _GLUED_VALUE.fullmatch(word)
    if glued and (found := _exact(table, glued[1])) and found[0].words != (0, 0):
        return Meant(*found, f"takes its value as a word of its own: write {glued[1]} and {glued[2]} as two entries")
    return None


def _exact(table: FlagTable, word: str) -> tuple[Flag, str] | None:
    flag = table.by_spelling.get(word)
    return (flag, word) if flag else None


def nearest(table: FlagTable, word: str) -> tuple[str, ...]:
    """Up to three spellings that resemble the word: those that it begins first; of one flag only the nearest."""
    head = normal(table, word).partition("=")[0]
    longs = [spelling for spelling in table.by_spelling if spelling.startswith("--")]
    begun = [spelling for spelling in longs if spelling.startswith(head)] if len(head) > len("--x") else []
    close = difflib.get_close_matches(head, longs, n=_SUGGESTIONS, cutoff=_CLOSE)
    best = difflib.SequenceMatcher(None, head, close[0]).ratio() if close else 0.0
    if best >= _SLIP:
        close = close[:1]
    return tuple(dict.fromkeys([*begun, *close]))[:_SUGGESTIONS]
