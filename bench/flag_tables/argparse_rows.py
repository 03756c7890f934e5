"""Rows of a flag table, read off a real argparse parser: its spellings, and how each value type behaves when asked.

Types are told apart by what they do with a few words, not by their names, so that a renamed converter changes nothing.
Runs inside the engine's own environment: standard library only.
"""  # noqa: INP001  # a script's module, not part of a package

from __future__ import annotations

import argparse
import contextlib
import enum
import io
import json
from typing import Any

LONGEST_DEFAULT = 80
"""Longer defaults are whole objects printed; nobody compares against them."""


def rows(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """One row a flag, sorted by its name; positional arguments and help are left to the caller."""
    spellings: dict[int, list[str]] = {}
    # the registry also holds spellings that a parser hides from its help
    for spelling, action in parser._option_string_actions.items():  # noqa: SLF001  # argparse has no public listing
        spellings.setdefault(id(action), []).append(spelling)
    actions = {id(action): action for action in parser._actions if action.option_strings}  # noqa: SLF001
    found = [_row(parser, action, spellings[key]) for key, action in actions.items()]
    return sorted(found, key=lambda row: row["spellings"][0])


def _row(parser: argparse.ArgumentParser, action: argparse.Action, spellings: list[str]) -> dict[str, Any]:
    longs = [spelling for spelling in spellings if spelling.startswith("--")]
    ordered = [longs[0], *(spelling for spelling in spellings if spelling != longs[0])] if longs else spellings
    row: dict[str, Any] = {"spellings": ordered}
    least, most = _words(action.nargs)
    off = _off(parser, action, ordered) if most == 0 else []
    if isinstance(action, argparse._HelpAction | argparse._VersionAction):  # noqa: SLF001
        return row | {"kind": "switch", "exits": True}
    if most == 0:
        row |= {"kind": "pair", "off": off} if off else {"kind": "switch"}
        if refusal := _refusal(parser, action, ordered[0]):
            row["removed"] = refusal
        return row
    row["kind"] = "values" if most is None or most > 1 else "value"
    if (least, most) not in {(1, 1), (1, None)}:
        row["words"] = [least, most]
    row |= _value(action.type)
    if type(action).__module__ != "argparse" and row["type"] == "text":
        row["type"] = "own"  # the program's own action, which may refuse what it likes
    if action.choices is not None:
        row["choices"] = [str(choice) for choice in action.choices if choice is not None]
    if isinstance(action, argparse._AppendAction):  # noqa: SLF001
        row["appends"] = True
    if row["kind"] == "value" and row["type"] in {"json", "json object"}:
        row["kind"] = "json"
    return row | _default(action.default)


def _words(nargs: int | str | None) -> tuple[int, int | None]:
    """How many words follow, at least and at most."""
    match nargs:
        case None:
            return 1, 1
        case "?":
            return 0, 1
        case "*" | "...":
            return 0, None
        case "+":
            return 1, None
        case int():
            return nargs, nargs
        case other:
            raise ValueError(f"nargs {other!r} is not known here")


def _call(parser: argparse.ArgumentParser, action: argparse.Action, spelling: str) -> tuple[Any, str | None]:
    """What a valueless flag stores, and the message with which it refuses instead."""
    space = argparse.Namespace()
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            action(parser, space, [], spelling)
        except SystemExit:
            return None, said.getvalue().strip().splitlines()[-1].partition("error: ")[2]
    return getattr(space, action.dest, None), None


def _off(parser: argparse.ArgumentParser, action: argparse.Action, spellings: list[str]) -> list[str]:
    if isinstance(action, argparse._HelpAction | argparse._VersionAction):  # noqa: SLF001
        return []
    stored = {spelling: _call(parser, action, spelling)[0] for spelling in spellings}
    off = [spelling for spelling, value in stored.items() if value is False]
    return off if len(off) < len(spellings) else []


def _refusal(parser: argparse.ArgumentParser, action: argparse.Action, spelling: str) -> str | None:
    return _call(parser, action, spelling)[1]


def _value(convert: Any) -> dict[str, Any]:
    """The value type by behaviour, and whether `None` may be written."""
    if convert is None or convert is str:
        return {"type": "text"}
    kind = _kind(convert)
    takes_none = _result(convert, "None") == (True, None)
    return {"type": kind, "nullable": True} if takes_none else {"type": kind}


def _result(convert: Any, word: str) -> tuple[bool, Any]:
    try:
        return True, convert(word)
    except Exception:  # noqa: BLE001  # any failure of a foreign converter is its way to refuse the word
        return False, None


def _kind(convert: Any) -> str:
    takes_word, word = _result(convert, "Ab-c")
    takes_object, braces = _result(convert, "{}")
    if takes_word and word == "ab_c":
        return "folded"
    if takes_word:
        return "json or text" if takes_object and braces != "{}" and isinstance(word, str) else "text"
    if takes_object:
        return "json" if _result(convert, "[1]")[0] else "json object"
    if _result(convert, "1K") == (True, 1024):
        return "suffixed or auto" if _result(convert, "auto")[0] else "suffixed"
    if _result(convert, "1Ki") == (True, 1024):
        return "si suffixed"
    if _result(convert, "1.5") == (True, 1.5):
        return "number"
    return "whole" if _result(convert, "12") == (True, 12) else "own"


def _default(value: Any) -> dict[str, str]:
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or value == argparse.SUPPRESS or isinstance(value, set) or not _plain(value):
        return {}
    text = value if isinstance(value, str) else json.dumps(value)
    return {"default": text} if text and len(text) <= LONGEST_DEFAULT else {}


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return not value
    return isinstance(value, str | int | float | list | tuple)
