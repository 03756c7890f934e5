"""Flag tables by engine and version, from the JSON files in `tables/flags`.

One file a version, printed by a script in `bench/flag_tables` from the program itself. What those files cannot say is
in `marks.json`, by hand and with reasons: which flags YAML fields decide, which ones sizing reads, what older versions
had.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from reconciler.domain.flags import (
    Flag,
    FlagKind,
    FlagTable,
    Grammar,
    Managed,
    Removed,
    TableSource,
    ValueType,
)
from reconciler.domain.model_spec import Engine
from reconciler.domain.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WORDS_BY_KIND: Mapping[FlagKind, tuple[int, int | None]] = {
    FlagKind.SWITCH: (0, 0),
    FlagKind.PAIR: (0, 0),
    FlagKind.VALUE: (1, 1),
    FlagKind.VALUES: (1, None),
    FlagKind.JSON: (1, 1),
}

_UNKNOWN = TableSource("no version of this engine was tabled", "unknown")
_NO_GRAMMAR = Grammar(
    prefixes=False,
    equals=False,
    glued=False,
    underscores_as_dashes=False,
    dotted=False,
    any_value=False,
    bare_dashes=False,
)


def flag_table(engine: Engine, version: str | None = None) -> FlagTable:
    """The table of that version; else of the newest known one below it; else of the oldest known one.

    Without a version, or with one that has no number in it (`latest`), the newest. A table says which version it
    describes and whether that is the one asked for. An engine that was never tabled gets an empty table.
    """
    versions = known_versions(engine)
    if not versions:
        return replace(_unknown(engine), asked=version)
    asked = _number(engine, version) if version else ()
    below = [each for each in versions if not asked or _number(engine, each) <= asked]
    found = _load(engine, below[-1] if below else versions[0])
    if version is None:
        return found
    exact = asked == _number(engine, found.version) and not _is_before_release(version)
    # of a version older than its table nobody knows whether a flag had gone by then
    removed = found.removed if below else {}
    return replace(found, asked=version, exact=exact, removed=removed)


@cache
def key_variables() -> Mapping[str, tuple[Engine, ...]]:
    """Variables in which an engine takes its API key, with the engines that do (`key_env` of the modules)."""
    found: dict[str, tuple[Engine, ...]] = {}
    for engine in Engine:
        for name in table("flags/marks")[engine].get("keys", ()):
            found[name] = (*found.get(name, ()), engine)
    return found


@cache
def known_versions(engine: Engine) -> tuple[str, ...]:
    """The tabled versions, oldest first."""
    names = (entry.name for entry in files("reconciler.domain.tables").joinpath("flags").iterdir())
    prefix = f"{engine}-"
    found = [name.removeprefix(prefix).removesuffix(".json") for name in names if name.startswith(prefix)]
    return tuple(sorted(found, key=lambda version: _number(engine, version)))


def _number(engine: Engine, version: str) -> tuple[int, ...]:
    """The release numbers; llama.cpp counts builds: b11549, 11549, and xllamacpp's 2026.10.11549 are one."""
    found = re.search(r"\d+(?:\.\d+)*", version)
    numbers = tuple(int(part) for part in found[0].split(".")) if found else ()
    if engine is Engine.LLAMACPP:
        return numbers[-1:]
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers


@cache
def _unknown(engine: Engine) -> FlagTable:
    env = dict(_managed_env(table("flags/marks")["any"], {}))
    return FlagTable(engine, "none", None, False, _UNKNOWN, _NO_GRAMMAR, (), {}, {}, env, {})


@cache
def _load(engine: Engine, version: str) -> FlagTable:
    marks = table("flags/marks")
    data, own = table(f"flags/{engine}-{version}"), marks[engine]
    by_flag = _marks_by_flag(own)
    flags = tuple(_flag(row, by_flag) for row in data["flags"])
    by_spelling = {spelling: flag for flag in flags for spelling in flag.spellings}
    keys = own.get("keys", ())  # hold a secret, and are the way to give it
    env_of_flags = {
        name: (flag.managed, flag)
        for flag in flags
        if flag.managed
        for name in (*flag.env, *flag.env_off)
        if name not in keys
    }
    return FlagTable(
        engine=engine,
        version=version,
        asked=None,
        exact=True,
        source=TableSource(data["source"]["program"], data["source"]["obtained"]),
        grammar=_grammar(data["grammar"]),
        flags=flags,
        by_spelling=by_spelling,
        by_env={name: flag for flag in flags for name in (*flag.env, *flag.env_off)},
        managed_env={
            **dict(_managed_env(marks["any"], by_spelling)),
            **dict(_managed_env(own, by_spelling)),
            **env_of_flags,
        },
        removed={
            spelling: Removed(row["last"], row.get("instead"))
            for spelling, row in own["removed"].items()
            if spelling not in by_spelling
        },
    )


def _is_before_release(version: str) -> bool:
    return re.search(r"\d(a|b|rc|\.dev)\d", version) is not None


def _managed_env(marks: Any, by_spelling: Mapping[str, Flag]) -> Iterator[tuple[str, tuple[Managed, Flag | None]]]:
    """Variables that are managed on their own account; with the one flag of their row, where there is just one."""
    for row in marks["managed"]:
        flags = row.get("flags", ())
        flag = by_spelling.get(flags[0]) if len(flags) == 1 else None
        for name in row.get("env", ()):
            yield name, (Managed(row["field"], row["why"]), flag)


def _marks_by_flag(marks: Any) -> Mapping[str, Mapping[str, Any]]:
    """What is said by hand of a flag, by the spelling it is said of."""
    found: dict[str, dict[str, Any]] = {}
    for row in marks["managed"]:
        for flag in row.get("flags", ()):
            found.setdefault(flag, {})["managed"] = Managed(row["field"], row["why"])
    for flag, word in marks["sizing"].items():
        found.setdefault(flag, {})["sizing"] = word
    for moved, flags in marks["memory"].items():
        for flag in flags:
            found.setdefault(flag, {})["memory"] = moved
    for flag, why in marks["clashes"].items():
        found.setdefault(flag, {})["clash"] = why
    return found


def _flag(row: Mapping[str, Any], marks: Mapping[str, Mapping[str, Any]]) -> Flag:
    spellings = tuple(row["spellings"])
    kind = FlagKind(row["kind"])
    words = row.get("words", _WORDS_BY_KIND[kind])
    said = {key: value for spelling in spellings for key, value in marks.get(spelling, {}).items()}
    return Flag(
        spellings=spellings,
        kind=kind,
        type=ValueType(row.get("type", "text")),
        words=(words[0], words[1]),
        choices=tuple(row.get("choices", ())),
        least=row.get("least"),
        most=row.get("most"),
        also=tuple(row.get("also", ())),
        off=tuple(row.get("off", ())),
        appends=row.get("appends", False),
        nullable=row.get("nullable", False),
        default=row.get("default"),
        env=tuple(row.get("env", ())),
        env_off=tuple(row.get("env_off", ())),
        exits=row.get("exits", False),
        removed=Removed(None, row["removed"]) if "removed" in row else None,
        **said,
    )


def _grammar(row: Mapping[str, Any]) -> Grammar:
    return Grammar(
        prefixes=row["prefixes"],
        equals=row["equals"],
        glued=row["glued"],
        underscores_as_dashes=row["underscores"] == "read as dashes",
        dotted=row["dotted"],
        any_value=row["any_value"],
        bare_dashes=row["bare_dashes"],
        shorthand=row["shorthand"],
    )
