"""Published advisories on engine versions, from `tables/advisories.json`.

Each row is one advisory in our own words, with the page it was read from. A row names the versions it holds for:
from `introduced` to before `fixed`, or up to `last` where no fixed version is named. `only` says what else must be so
for it to matter, where the advisory says that; a severity that nobody published is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine, Task
from reconciler.domain.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    Release = tuple[tuple[int, ...], int, int]

_VERSION = re.compile(r"(?P<numbers>\d+(\.\d+)*)[._-]?((?P<stage>dev|a|alpha|b|beta|rc|post)[._-]?(?P<count>\d*))?")
_STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, None: 0, "post": 1}
"""Order of what comes before and after a release (PEP 440)."""


class Gravity(StrEnum):
    """How grave an advisory was rated, gravest first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    UNRATED = "not rated"


@dataclass(frozen=True, slots=True)
class Only:
    """What must be so for an advisory to matter; every field that is set must hold."""

    flag: str | None = None
    """This flag is given."""
    env: str | None = None
    """This variable is set."""
    config: str | None = None
    """The model's config has this key."""
    nodes: bool = False
    """A replica spans several nodes."""
    task: Task | None = None
    """The model is asked for this."""


@dataclass(frozen=True, slots=True)
class Advisory:
    """One published advisory on one engine."""

    engine: Engine
    id: str
    """CVE number, else GHSA number."""
    gravity: Gravity
    introduced: str | None
    """The first version that has it; None for all before `fixed`."""
    fixed: str | None
    """The first version without it."""
    last: str | None
    """The last version known to have it, where no fixed one is named."""
    only: Only | None
    says: str
    """What happens, as the rest of a sentence."""
    source: str
    """Address of the page it was read from."""

    def affects(self, version: str) -> bool:
        """Whether a version has it; one without a number in it (`latest`) is not judged."""
        asked = release(self.engine, version)
        if asked is None:
            return False
        bounds = (release(self.engine, each) if each else None for each in (self.introduced, self.fixed, self.last))
        introduced, fixed, last = bounds
        return (
            (introduced is None or introduced <= asked)
            and (fixed is None or asked < fixed)
            and (last is None or asked <= last)
        )


@cache
def advisories(engine: Engine, version: str) -> tuple[Advisory, ...]:
    """Those that a version has, gravest first, then newest."""
    found = [each for each in _known() if each.engine is engine and each.affects(version)]
    order = list(Gravity)
    # numbers of one form sort like their years
    return tuple(sorted(sorted(found, key=_number, reverse=True), key=lambda each: order.index(each.gravity)))


def release(engine: Engine, version: str) -> Release | None:
    """A version as it compares; None where it has no number. llama.cpp counts builds: b11549 is 2026.10.11549."""
    found = _VERSION.search(version)
    if found is None:
        return None
    numbers = tuple(int(part) for part in found["numbers"].split("."))
    if engine is Engine.LLAMACPP:
        return numbers[-1:], 0, 0
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers, _STAGES[found["stage"]], int(found["count"] or 0)


def without(found: tuple[Advisory, ...]) -> str | None:
    """The first version with none of these, nor any other that always matters; None where one has no fixed version."""
    if not found or any(each.fixed is None for each in found):
        return None
    engine = found[0].engine
    least = max(_order(engine, each.fixed) for each in found)
    candidates = {each.fixed for each in _known() if each.engine is engine and each.fixed is not None}
    for version in sorted(candidates, key=lambda each: _order(engine, each)):
        if _order(engine, version) >= least and all(each.only for each in advisories(engine, version)):
            return version
    return None


def _order(engine: Engine, version: str | None) -> Release:
    return (release(engine, version) if version else None) or ((), 0, 0)


def _number(advisory: Advisory) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", advisory.id)) if advisory.id.startswith("CVE") else ()


@cache
def _known() -> tuple[Advisory, ...]:
    return tuple(_advisory(row) for row in table("advisories")["advisories"])


def _advisory(row: Mapping[str, str | Mapping[str, str | bool]]) -> Advisory:
    only = row.get("only")
    text = {key: value for key, value in row.items() if isinstance(value, str)}
    return Advisory(
        engine=Engine(text["engine"]),
        id=text["id"],
        gravity=Gravity(text.get("severity", Gravity.UNRATED)),
        introduced=text.get("introduced"),
        fixed=text.get("fixed"),
        last=text.get("last"),
        only=None if not isinstance(only, dict) else _only(only),
        says=text["says"],
        source=text["source"],
    )


def _only(row: Mapping[str, str | bool]) -> Only:
    text = {key: value for key, value in row.items() if isinstance(value, str)}
    task = text.get("task")
    return Only(
        text.get("flag"), text.get("env"), text.get("config"), bool(row.get("nodes")), Task(task) if task else None
    )
