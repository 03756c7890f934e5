"""Reads `args` and `env` of a profile as the engine's own parser would, against the flag table of its version.

Used by the gate before merge, by sizing, which reads some flags, and for launching. Nothing is guessed: a value whose
rules only the program knows is taken as it is, and an engine without a table is read as having no flags at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.flag_tables import flag_table
from reconciler.engines.flag_reading import ArgProblem, ProblemKind, ReadFlag, read_variable, step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reconciler.domain.flags import FlagTable, Managed

__all__ = ["ArgProblem", "ManagedUse", "ProblemKind", "ReadArgs", "ReadFlag", "flag_table", "managed_uses", "read_args"]


@dataclass(frozen=True, slots=True)
class ReadArgs:
    """All flags and all problems, each in the order of the words."""

    flags: tuple[ReadFlag, ...]
    problems: tuple[ArgProblem, ...]

    def last(self, name: str) -> ReadFlag | None:
        """The occurrence that counts of the flag with this canonical name: parsers take the last one."""
        return next((each for each in reversed(self.flags) if each.flag.name == name), None)

    def sizing(self) -> Mapping[str, ReadFlag]:
        """What sizing reads, by its word for it."""
        return {each.flag.sizing: each for each in self.flags if each.flag.sizing}

    def unsized(self) -> tuple[ReadFlag, ...]:
        """Flags that move memory in ways that sizing does not read: they widen its estimate, and are named there."""
        return tuple(each for each in self.flags if each.flag.memory)


@dataclass(frozen=True, slots=True)
class ManagedUse:
    """A flag or variable that something else decides."""

    at: int | str
    """The index of the word in `args`, or the variable's name."""
    spelling: str
    """As it was written."""
    canonical: str
    """The flag's name, or the variable's."""
    field: str | None
    """The YAML field that decides it; None where the agent does, or nothing may."""
    why: str
    """What it decides, as the end of a sentence that begins with the flag."""


def read_args(table: FlagTable, args: Sequence[str], env: Mapping[str, str] | None = None) -> ReadArgs:
    """Read the words that follow what the launch command sets itself (the model's place is taken).

    Variables that the program reads in a flag's place come first: flags win over them.
    """
    steps = [
        read_variable(table.by_env[name], name, value) for name, value in (env or {}).items() if name in table.by_env
    ]
    index = 0
    while table.known and index < len(args):
        steps.append(step(table, args, index))
        index = steps[-1].then
    return ReadArgs(
        tuple(flag for each in steps for flag in each.flags),
        tuple(problem for each in steps for problem in each.problems),
    )


def managed_uses(table: FlagTable, args: Sequence[str], env: Iterable[str]) -> tuple[ManagedUse, ...]:
    """Every flag in `args` and variable in `env` that a YAML field or the agent decides, in wrong forms too."""
    read = read_args(table, args)
    seen = [(each.index, each.spelling, each.flag) for each in read.flags]
    seen += [(each.index, each.word.partition("=")[0], each.flag) for each in read.problems if each.flag]
    by_index = {index: (spelling, flag) for index, spelling, flag in reversed(seen) if index is not None}
    return (
        *(
            _use(index, spelling, flag.name, flag.managed)
            for index, (spelling, flag) in sorted(by_index.items(), key=lambda item: item[0])
            if flag.managed
        ),
        *(
            _use(name, name, flag.name if flag else name, why)
            for name in sorted(env)
            if name in table.managed_env
            for why, flag in (table.managed_env[name],)
        ),
    )


def _use(at: int | str, spelling: str, canonical: str, managed: Managed) -> ManagedUse:
    return ManagedUse(at, spelling, canonical, managed.field, managed.why)
