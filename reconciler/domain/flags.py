"""What the command line of one engine version takes: flags, the parser's habits, and which flags are not for `args`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping


class FlagKind(StrEnum):
    """What follows a flag."""

    SWITCH = "switch"
    """Nothing; it has one meaning."""
    PAIR = "pair"
    """Nothing; some of its spellings turn a thing on, the others turn it off."""
    VALUE = "value"
    """One word."""
    VALUES = "values"
    """Several words."""
    JSON = "json"
    """One word of JSON."""


class ValueType(StrEnum):
    """How a program reads one word of a value. Each name says the rule; the words it refuses are part of it."""

    TEXT = "text"
    """Any word."""
    OWN = "own"
    """The program checks it by rules that the table does not hold."""
    WHOLE = "whole"
    """A whole number as Python writes it."""
    NUMBER = "number"
    """A number as Python writes it."""
    SUFFIXED = "suffixed"
    """vLLM: a whole number, or with k m g t for thousands (decimals allowed) or K M G T for 1024s (no decimals)."""
    SUFFIXED_OR_AUTO = "suffixed or auto"
    """The same, or `auto` or -1."""
    SI_SUFFIXED = "si suffixed"
    """SGLang: a whole number, or with k M G T for thousands or Ki Mi Gi Ti for 1024s; the case counts."""
    LEADING_WHOLE = "leading whole"
    """llama.cpp: the whole number that a word begins with; what follows is dropped without a word (8k is 8)."""
    LEADING_NUMBER = "leading number"
    """llama.cpp: the same with decimals."""
    FOLDED = "folded"
    """Any word; read in lower case with underscores for dashes."""
    JSON = "json"
    """Any JSON."""
    JSON_OBJECT = "json object"
    """A JSON object whose keys the program checks."""
    JSON_OR_TEXT = "json or text"
    """A word in braces is read as JSON, any other as it is."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The habits of a program's parser."""

    prefixes: bool
    """Any beginning of a flag that fits no other flag is that flag."""
    equals: bool
    """`--flag=value` is taken."""
    glued: bool
    """The value may follow a one-letter flag in the same word: `-q8`."""
    underscores_as_dashes: bool
    """`_` in a long flag is read as `-`; else spellings are taken as written."""
    dotted: bool
    """`--flag.key value` sets one key of a flag that takes JSON."""
    any_value: bool
    """The word after a flag is its value even if it begins with a dash."""
    bare_dashes: bool
    """A `--` at the end is taken, without meaning."""
    shorthand: Mapping[str, str] = field(default_factory=dict)
    """Flags that only exist as an abbreviation with the value glued on: `-O3`."""


@dataclass(frozen=True, slots=True)
class Managed:
    """Why a flag or variable is not for `args` and `env`."""

    field: str | None
    """The YAML field that decides it; None where the agent does, or nothing may."""
    why: str
    """What it decides, as the end of a sentence that begins with the flag."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A flag that older versions took."""

    last: str | None
    """The newest version looked at that still had it; None where this version itself says that it is gone."""
    instead: str | None
    """What to write now, if anything does the same."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of one engine version."""

    spellings: tuple[str, ...]
    """The first one names it."""
    kind: FlagKind
    type: ValueType = ValueType.TEXT
    words: tuple[int, int | None] = (0, 0)
    """How many words follow, at least and at most; None is any number."""
    choices: tuple[str, ...] = ()
    """All values it takes, where the program says so."""
    least: int | None = None
    """The smallest number it takes, where a table knows."""
    most: int | None = None
    """The largest."""
    also: tuple[str, ...] = ()
    """Words it takes besides its type."""
    off: tuple[str, ...] = ()
    """Of a pair: the spellings that turn it off."""
    appends: bool = False
    """Every occurrence adds a value; of other flags the last one counts."""
    nullable: bool = False
    """`None` and the empty word mean no value."""
    default: str | None = None
    env: tuple[str, ...] = ()
    """Variables that set the same thing."""
    env_off: tuple[str, ...] = ()
    """Variables that turn it off whatever they hold."""
    exits: bool = False
    """It prints something and ends the program."""
    removed: Removed | None = None
    """The program still knows it, and refuses it."""
    clash: str | None = None
    """Why the launch command leaves no room for it."""
    managed: Managed | None = None
    sizing: str | None = None
    """The word under which sizing reads it (design section 6)."""
    memory: str | None = None
    """What it moves in memory that sizing does not read: such a flag widens the estimate's band."""

    @property
    def name(self) -> str:
        """The canonical spelling."""
        return self.spellings[0]


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where a table comes from."""

    program: str
    obtained: str
    """`parsed by the real program`, or how else."""


@dataclass(frozen=True, slots=True)
class FlagTable:
    """All flags of one engine version."""

    engine: Engine
    version: str
    """The version that the table describes."""
    asked: str | None
    """The version that was asked for; None for the newest."""
    exact: bool
    """Whether it is the version asked for. If not, what the table does not know may well exist."""
    source: TableSource
    grammar: Grammar
    flags: tuple[Flag, ...]
    by_spelling: Mapping[str, Flag]
    by_env: Mapping[str, Flag]
    """By variable that the program reads in a flag's place."""
    managed_env: Mapping[str, tuple[Managed, Flag | None]]
    """By variable: why it is managed, and the flag that does the same, if one does."""
    removed: Mapping[str, Removed]
    """By spelling: flags that older versions took and this one does not know."""

    @property
    def known(self) -> bool:
        """False for an engine of which no version was tabled: then nothing can be said of its flags."""
        return bool(self.flags)
