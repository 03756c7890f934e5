"""What one place in `args` is: a flag with its value, or something that the engine's program would not take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from reconciler.domain.flags import FlagKind
from reconciler.domain.model_spec import Engine
from reconciler.engines.flag_values import read_word
from reconciler.engines.flag_words import Ambiguous, Hit, Plain, Unknown, match, meant, nearest, normal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.domain.flags import Flag, FlagTable
    from reconciler.engines.flag_values import Word

_PROGRAM: Mapping[Engine, str] = {
    Engine.VLLM: "vLLM",
    Engine.SGLANG: "SGLang",
    Engine.TRTLLM: "trtllm-serve",
    Engine.LLAMACPP: "llama-server",
    Engine.COMFYUI: "ComfyUI",
}
_ON, _OFF = frozenset({"on", "enabled", "true", "1"}), frozenset({"off", "disabled", "false", "0"})
"""What llama.cpp takes for yes and no in a variable."""
_NAMED = 4
"""Candidates that a message lists; more do not help."""


class ProblemKind(StrEnum):
    """Why the program would not take a word, or not as it was meant."""

    UNKNOWN = "unknown"
    REMOVED = "removed"
    AMBIGUOUS = "ambiguous"
    WRONG_FORM = "wrong form"
    MISSING_VALUE = "missing value"
    BAD_VALUE = "bad value"
    MISREAD = "misread"
    """It is taken, for something else than it says."""
    STRAY = "stray"
    """A word that belongs to no flag."""
    EXITS = "exits"
    """The program prints something and ends."""


@dataclass(frozen=True, slots=True)
class ArgProblem:
    """One thing wrong with `args`."""

    kind: ProblemKind
    index: int | None
    """Of the word in `args`; None when it is about a variable."""
    word: str
    """As it was written, or the variable's name."""
    message: str
    nearest: tuple[str, ...] = ()
    """Spellings that may have been meant."""
    flag: Flag | None = None
    """The flag that was meant, when there is no doubt."""


@dataclass(frozen=True, slots=True)
class ReadFlag:
    """One flag in `args`."""

    index: int | None
    """Of the word in `args`; None when a variable gave it."""
    spelling: str
    """As it was written, without a value in the same word; or the variable's name."""
    flag: Flag
    words: tuple[str, ...]
    """The words of its value, as written."""
    value: Any
    """Switch and pair: whether it is on. Value: int, float, str, parsed JSON or None. Values: a tuple of these."""
    key: str | None = None
    """The path after the first dot of a dotted flag; the value is that of the path."""


@dataclass(frozen=True, slots=True)
class Step:
    """What was read from one place on, and where to go on."""

    then: int
    flags: tuple[ReadFlag, ...] = ()
    problems: tuple[ArgProblem, ...] = ()


def step(table: FlagTable, args: Sequence[str], index: int) -> Step:
    """Read what begins at this word; `then` is where the next thing begins."""
    word = args[index]
    if shorthand := _shorthand(table, args, index):
        return shorthand
    if _is_dotted(table, word):
        return _dotted(table, args, index)
    if word == "--" and table.grammar.equals:  # llama.cpp, which takes no =, knows no -- either
        return _after_end(table, args, index)
    found = match(table, word)
    match found:
        case Hit():
            return _take(table, args, index, found)
        case Plain():
            return _stray(table, args, index)
        case Ambiguous() | Unknown():
            return _refused(table, args, index, found)


def read_variable(flag: Flag, name: str, value: str) -> Step:
    """A variable that the program (llama-server is the only one) reads in a flag's place.

    Of a pair, the variable with NO_ in its name says off whatever it holds; a switch heeds only the words for on.
    """
    if name in flag.env_off:
        return Step(0, (ReadFlag(None, name, flag, (value,), False),))
    match flag.kind:
        case FlagKind.SWITCH:
            return Step(0, (ReadFlag(None, name, flag, (value,), True),)) if value in _ON else Step(0)
        case FlagKind.PAIR:
            if value not in _ON | _OFF:
                message = f"{name} is {_quoted(value)}; it takes one of {', '.join(sorted(_ON | _OFF))}"
                return Step(0, problems=(ArgProblem(ProblemKind.BAD_VALUE, None, name, message, (), flag),))
            return Step(0, (ReadFlag(None, name, flag, (value,), value in _ON),))
        case FlagKind.VALUE | FlagKind.VALUES | FlagKind.JSON:
            return _read(0, None, name, Hit(flag, name), (value,))


def _after_end(table: FlagTable, args: Sequence[str], index: int) -> Step:
    """`--`: what follows is no flag any more, and there is no place for it."""
    message = f"{_name(table)} reads no flags after --"
    first = index + 1 if table.grammar.bare_dashes else index
    problems = [ArgProblem(ProblemKind.STRAY, at, args[at], message) for at in range(first, len(args))]
    return Step(len(args), problems=tuple(problems))


def _shorthand(table: FlagTable, args: Sequence[str], index: int) -> Step | None:
    """`-O3`, `-O=3`, and `-O` before a level from 0 to 3."""
    word = args[index]
    for short, long in table.grammar.shorthand.items():
        hit = Hit(table.by_spelling[long], long)
        if word == short and index + 1 < len(args) and re.fullmatch(r"[0-3]", args[index + 1]):
            return _read(index + 2, index, short, hit, (args[index + 1],))
        if word.startswith(short) and word != short:
            return _read(index + 1, index, short, hit, (word.removeprefix(short).removeprefix("="),))
    return None


def _is_dotted(table: FlagTable, word: str) -> bool:
    return table.grammar.dotted and word.startswith("-") and "." in word.partition("=")[0]


def _dotted(table: FlagTable, args: Sequence[str], index: int) -> Step:
    """`--flag.key value`, which vLLM turns into JSON before it looks at anything else."""
    head, equals, value = normal(table, args[index]).partition("=")
    name, _, key = head.partition(".")
    if re.fullmatch(r"-\d*", name):
        message = f"vLLM takes {head} for a flag with a key; write it behind its flag with =, as in --flag={head}"
        return Step(index + 1, problems=(ArgProblem(ProblemKind.WRONG_FORM, index, args[index], message),))
    found = match(table, name)
    if not isinstance(found, Hit):
        return _refused(table, args, index, found if isinstance(found, Ambiguous) else Unknown())
    if not equals and index + 1 >= len(args):
        return Step(index + 1, problems=(_missing(table, index, head, found.flag),))
    text = value if equals else args[index + 1]
    then = index + (1 if equals else 2)
    if found.flag.words == (0, 0) or read_word(found.flag, f'{{"{key}": ""}}').refused:
        message = f"{found.spelling} has no keys: write it without .{key}"
        return Step(then, problems=(ArgProblem(ProblemKind.WRONG_FORM, index, head, message, (), found.flag),))
    return Step(then, (ReadFlag(index, name, found.flag, (text,), text, key),))


def _take(table: FlagTable, args: Sequence[str], index: int, hit: Hit) -> Step:
    """The words of the flag's value, and what the program makes of them."""
    glued = hit.value is not None and "=" not in args[index]
    written = hit.spelling if glued else args[index].partition("=")[0]
    least, most = hit.flag.words
    if hit.value is not None:
        if most == 0:
            message = f"{hit.spelling} takes no value: write it alone{_negation(hit.flag)}"
            problem = ArgProblem(ProblemKind.WRONG_FORM, index, args[index], message, (), hit.flag)
            return Step(index + 1, problems=(problem,))
        return _read(index + 1, index, written, hit, (hit.value,))
    end = index + 1
    while end < len(args) and (most is None or end - index - 1 < most) and _is_value(table, args[end]):
        end += 1
    words = tuple(args[index + 1 : end])
    if len(words) < least:
        return Step(end, problems=(_missing(table, index, args[index], hit.flag),))
    return _read(end, index, written, hit, words)


def _is_value(table: FlagTable, word: str) -> bool:
    """Whether the word can be a value where it stands."""
    if table.grammar.any_value:
        return True
    return word != "--" and not _is_dotted(table, word) and isinstance(match(table, word), Plain)


def _read(then: int, index: int | None, written: str, hit: Hit, words: tuple[str, ...]) -> Step:
    """One flag with its words: its reading, and every problem of both."""
    flag = hit.flag
    problems = [
        ArgProblem(kind, index, written, message, (), flag)
        for kind, message in (
            (ProblemKind.EXITS, f"{hit.spelling} prints something and ends: nothing would be served"),
            (
                ProblemKind.REMOVED,
                f"{hit.spelling} was removed{_instead(flag.removed.instead)}" if flag.removed else "",
            ),
            (ProblemKind.WRONG_FORM, f"{hit.spelling} has no place: {flag.clash}" if flag.clash else ""),
        )
        if message and (flag.exits or kind is not ProblemKind.EXITS)
    ]
    if flag.removed:
        return Step(then, problems=tuple(problems))
    readings = [read_word(flag, word) for word in words]
    for word, reading in zip(words, readings, strict=True):
        if reading.refused:
            message = f"{hit.spelling} is {_quoted(word)}; it takes {reading.refused}"
            problems.append(ArgProblem(ProblemKind.BAD_VALUE, index, written, message, (), flag))
        elif reading.misread:
            message = f"{hit.spelling} is {_quoted(word)}, which llama-server reads as {reading.misread}"
            problems.append(ArgProblem(ProblemKind.MISREAD, index, written, message, (), flag))
    return Step(then, (ReadFlag(index, written, flag, words, _value(hit, readings)),), tuple(problems))


def _value(hit: Hit, readings: Sequence[Word]) -> Any:
    match hit.flag.kind:
        case FlagKind.SWITCH | FlagKind.PAIR:
            return hit.spelling not in hit.flag.off
        case FlagKind.VALUE | FlagKind.JSON:
            return readings[0].value if readings else None
        case FlagKind.VALUES:
            return tuple(reading.value for reading in readings)


def _stray(table: FlagTable, args: Sequence[str], index: int) -> Step:
    word = args[index]
    if found := meant(table, word):
        message = f"{found.spelling} {found.wrong}"
        return Step(
            index + 1,
            problems=(ArgProblem(ProblemKind.WRONG_FORM, index, word, message, (found.spelling,), found.flag),),
        )
    message = f"{_quoted(word)} belongs to no flag; {_name(table)} takes no further words"
    return Step(index + 1, problems=(ArgProblem(ProblemKind.STRAY, index, word, message),))


def _refused(table: FlagTable, args: Sequence[str], index: int, found: Ambiguous | Unknown) -> Step:
    """A word that looks like a flag; the plain words behind it go with it."""
    word = args[index]
    head = normal(table, word).partition("=")[0].partition(".")[0]
    then = index + 1
    while then < len(args) and not args[then].startswith("-"):
        then += 1
    if gone := table.removed.get(head):
        had = f" ({gone.last} had it)" if gone.last else ""
        message = f"{_name(table)} has no {head} any more{had}{_instead(gone.instead)}"
        return Step(then, problems=(ArgProblem(ProblemKind.REMOVED, index, word, message),))
    if isinstance(found, Ambiguous):
        message = f"{head} could be {_listed(found.spellings)}: write it in full"
        return Step(then, problems=(ArgProblem(ProblemKind.AMBIGUOUS, index, word, message, found.spellings),))
    if wrong := meant(table, word):
        message = f"{wrong.spelling} {wrong.wrong}"
        problem = ArgProblem(ProblemKind.WRONG_FORM, index, word, message, (wrong.spelling,), wrong.flag)
        return Step(then, problems=(problem,))
    close = nearest(table, word)
    message = f"{_name(table)} has no flag {head}" + (f"; nearest: {', '.join(close)}" if close else "")
    return Step(then, problems=(ArgProblem(ProblemKind.UNKNOWN, index, word, message, close),))


def _missing(table: FlagTable, index: int, word: str, flag: Flag) -> ArgProblem:
    behind = "" if table.grammar.any_value else "; a value that begins with a dash is written with ="
    message = f"{word} takes a value and none follows{behind}"
    return ArgProblem(ProblemKind.MISSING_VALUE, index, word, message, (), flag)


def _negation(flag: Flag) -> str:
    return f", or {flag.off[0]} for the opposite" if flag.off else ""


def _instead(what: str | None) -> str:
    return f"; instead: {what}" if what else ""


def _listed(spellings: Sequence[str]) -> str:
    if len(spellings) <= _NAMED:
        return f"{', '.join(spellings[:-1])} or {spellings[-1]}"
    return f"{', '.join(spellings[:_NAMED])} or {len(spellings) - _NAMED} more"


def _quoted(word: str) -> str:
    return f'"{word}"'


def _name(table: FlagTable) -> str:
    return f"{_PROGRAM[table.engine]} {table.version}"
