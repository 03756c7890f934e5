"""Flags and variables that load foreign code or open an engine wider than meant, from `tables/exposures.json`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.domain.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.model_spec import Engine


@dataclass(frozen=True, slots=True)
class Risk:
    """Why a flag or variable is told, as the end of a sentence that begins with it."""

    why: str
    severity: Severity
    word: str | None = None
    """Only where the flag's value holds this word."""


def risky_variable(name: str) -> Risk | None:
    """Why no profile should set this variable; None where nothing speaks against it."""
    known, prefixes = _variables()
    why = next((why for prefix, why in prefixes.items() if name.startswith(prefix)), None)
    return known.get(name) or (Risk(why, Severity.ERROR) if why is not None else None)


@cache
def exposing_flags(engine: Engine) -> Mapping[str, Risk]:
    """By canonical name: flags that open the engine beyond its own address."""
    return {
        row["flag"]: Risk(row["why"], Severity.WARNING, row.get("word"))
        for row in table("exposures")["exposed"][engine]["flags"]
    }


@cache
def exposing_variables(engine: Engine) -> Mapping[str, Risk]:
    """By name: variables that do."""
    return {row["name"]: Risk(row["why"], Severity.WARNING) for row in table("exposures")["exposed"][engine]["env"]}


@cache
def _variables() -> tuple[Mapping[str, Risk], Mapping[str, str]]:
    rows = table("exposures")
    known = {
        name: Risk(row["why"], Severity(row.get("severity", Severity.ERROR)))
        for row in rows["env"]
        for name in row["names"]
    }
    return known, rows["env_prefixes"]
