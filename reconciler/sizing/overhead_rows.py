"""Picks rows of the table of overheads: the most particular one that holds, of the nearest versions where none does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Engine
from reconciler.domain.tables import table
from reconciler.sizing.capability import capability
from reconciler.sizing.refusal import version_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reconciler.domain.shape import Shape
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.memory_ask import Card

_GIB = 2**30
_MINORS = 100
"""Minor releases of one major one, at most."""
_OBSERVED = 16
"""What agents saw says more than anything published."""
_WEIGHT = {"engine": 1, "families": 2, "capabilities": 4, "classes": 8}
"""How particular a row is by what it names; a class says more than a generation."""


@dataclass(frozen=True, slots=True)
class Place:
    """What rows are chosen by."""

    engine: Engine
    version: str
    gpu_class: str | None
    families: frozenset[str]

    @classmethod
    def of(cls, shape: Shape, card: Card | None, rules: CountingRules) -> Place:
        """Where this shape would run."""
        return cls(rules.engine, rules.version, card.gpu_class if card else None, _families(shape))

    def inside(self, found: Mapping[str, Any]) -> bool:
        """Whether the row's versions hold this one."""
        return _distance(self.version, found) == 0


def span(found: Mapping[str, Any]) -> str:
    """A row's versions, for people: `0.16 to before 0.34`, or `any version`."""
    return "any version" if found["from"] == "0" else f"{found['from']} to before {found['before']}"


def evidence(found: Mapping[str, Any]) -> str:
    """What a row rests on, for people."""
    starts = found["starts"]
    if not starts:
        return "estimated, no start seen"
    kind = "observed" if found["kind"] == "observed" else "published"
    return f"{starts} {kind} {'start' if starts == 1 else 'starts'}"


@lru_cache(maxsize=512)
def _families(shape: Shape) -> frozenset[str]:
    found = {
        "moe": any(layer.experts for layer in shape.unlike),
        "latent": any(layer.attention and layer.attention.latent for layer in shape.unlike),
        "hybrid": any(layer.recurrent for layer in shape.unlike),
        "vision": bool(shape.towers),
        "encoder": shape.encoder,
    }
    named = {name for name, holds in found.items() if holds}
    return frozenset(named | ({"dense"} if "moe" not in named else set()))


@cache
def row(term: str, place: Place) -> Mapping[str, Any]:
    """The table's row of a term for this place."""
    return chosen(table("overheads")[term], place)


def chosen(rows: Iterable[Mapping[str, Any]], place: Place) -> Mapping[str, Any]:
    """Of the rows that name nothing else than this place, that of the nearest versions; of equal ones the narrowest."""
    holding = [each for each in rows if _holds(each, place)]
    return min(holding, key=lambda each: (_distance(place.version, each), -_particular(each)))


@cache
def batch_row(rules: CountingRules, card: Card | None) -> Mapping[str, Any]:
    """The defaults of a step on this card, None on CPUs: rows are in the order in which the engine asks."""
    size = card.engine_bytes / _GIB if card else 0.0
    name = card.gpu_class if card else ""
    rows = [
        each
        for each in table("overheads")["batch"]
        if each["engine"] == rules.engine
        and (card is None or not each.get("cpus", False))
        and size >= each.get("least_gib", 0)
        and name not in each.get("except", ())
    ]
    return min(rows, key=lambda each: _distance(rules.version, each), default={"tokens": 2048, "sequences": 256})


def _holds(each: Mapping[str, Any], place: Place) -> bool:
    found = capability(place.gpu_class) if place.gpu_class else None
    generation = f"{found[0]}.{found[1]}" if found else ""
    return (
        each["engine"] in ("any", place.engine)
        and ("families" not in each or bool(place.families & set(each["families"])))
        and ("capabilities" not in each or generation in each["capabilities"])
        and ("classes" not in each or place.gpu_class in each["classes"])
    )


def _particular(each: Mapping[str, Any]) -> int:
    named = sum(weight for key, weight in _WEIGHT.items() if each.get(key, "any") != "any")
    return named + (_OBSERVED if each.get("kind") == "observed" else 0)


def _distance(version: str, each: Mapping[str, Any]) -> float:
    """How many minor releases a version lies outside a row's versions; one without a number counts as the newest."""
    at, first, last = version_key(version), version_key(each["from"]), version_key(each["before"])
    if not at:
        at = (1 << 20,)
    if at < first:
        return _order(first) - _order(at)
    return 0 if at < last else _order(at) - _order(last) + 1


def _order(number: tuple[int, ...]) -> float:
    major, minor = (*number, 0, 0)[:2]
    return major * _MINORS + minor
