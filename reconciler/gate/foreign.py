"""What a profile still says in the words of another engine: left behind when it was moved, or copied from one.

A launch takes none of it over, since the command line is made of the fields alone. What a person wrote in `args` and
`env` stays, though, and means something there that this engine does not do.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from reconciler.domain.flag_tables import flag_table, key_variables, known_versions
from reconciler.domain.model_spec import Engine, SecretRef

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.flags import Flag, FlagTable
    from reconciler.gate.subject import Use


def keys_of_others(use: Use) -> Iterator[tuple[str, str, str]]:
    """Variables in which another engine takes its API key, where this one would get none: name, message, hint.

    Beside a key of its own such a variable does no harm, so nothing is said of it there.
    """
    engine, env = use.profile.engine, use.profile.env or {}
    if not env:
        return
    owners = key_variables()
    own = [name for name, engines in owners.items() if engine in engines]
    if any(name in env for name in own):
        return
    for name, value in env.items():
        readers = owners.get(name, ())
        if not readers or engine in readers:
            continue
        message = f"{name} is read by {_either(readers)} alone: replicas of {engine} would answer without a key"
        secret = value.secret if isinstance(value, SecretRef) else "NAME"
        here = f"{own[0]}: {{secret: {secret}}}" if own else f"remove it; {engine} takes no key, so guard its address"
        yield name, message, here


def flag_of_others(table: FlagTable, word: str) -> tuple[str, str] | None:
    """Whose flag a word is that this engine does not know, and what says the same here: message, hint.

    None where no other engine has a flag of exactly that name.
    """
    head = word.partition("=")[0].partition(".")[0]
    owners = {engine: flag for engine in Engine if engine is not table.engine and (flag := _flags(engine).get(head))}
    if not owners:
        return None
    message = f"{head} is a flag of {_either(tuple(owners))}; {table.engine} {table.version} has none of that name"
    return message, next((found for flag in owners.values() if (found := _instead(table, flag))), "remove it")


def _instead(table: FlagTable, flag: Flag) -> str | None:
    """The field that decides what the other engine's flag decides, or the flag that sizing reads as the same."""
    if flag.managed is not None:
        return f"write {flag.managed.field} instead" if flag.managed.field else None
    same = [each for each in table.flags if flag.sizing is not None and each.sizing == flag.sizing]
    return f"write {same[0].name} instead" if same else None


@cache
def _flags(engine: Engine) -> Mapping[str, Flag]:
    """Every flag that any tabled version of an engine has; of several the newest."""
    tables = [flag_table(engine, version) for version in known_versions(engine)]
    return {spelling: flag for each in tables for spelling, flag in each.by_spelling.items() if len(spelling) > 2}  # noqa: PLR2004  # short ones mean other things elsewhere


def _either(engines: tuple[Engine, ...]) -> str:
    return " and ".join(engine.value for engine in engines)
