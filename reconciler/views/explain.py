"""`reconciler explain`: what a rule checks and why, what a field means and what changing it does."""

from __future__ import annotations

import difflib
import textwrap
from typing import TYPE_CHECKING

from reconciler.domain.effects import Effect
from reconciler.gate.check import RULES
from reconciler.gate.nearest import Spellings
from reconciler.views.fields import fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.gate.rule import Rule
    from reconciler.views.fields import Field

_EFFECTS = {
    Effect.NONE: "none: what runs is not touched",
    Effect.LIVE: "live: what runs is told and not restarted",
    Effect.RESTART: "restart: replicas are replaced by the model's rollout policy",
    Effect.REPLACE: "re-place: a replica is replaced only where its node or GPUs no longer qualify",
}

_SUGGESTIONS = 3

_WIDTH = 120
"""Of a terminal that is not too narrow for a table of `status`."""


def explain(name: str) -> str | None:
    """Text on a rule (`inventory/node-too-small`, or `node-too-small`) or a field; None when there is no such thing.

    A field may be named by the end of its path: `gpus` tells of every gpus, `profiles.gpus` of that one,
    and `pool.gpus` of a pool's; the roots are model, pool and cluster. The text ends with a newline.
    """
    rules = [rule for slug, rule in RULES.items() if name in (slug, slug.partition("/")[2])]
    if rules:
        return "\n".join(_rule(rule) for rule in rules)
    found = [field for field in fields() if f".{field.name}".endswith(f".{name}")]
    return _fields(name, found) if found and name else None


def nearest(name: str) -> tuple[str, ...]:
    """The rules and fields that an unknown name most likely meant, best first; () when none is like it."""
    names = [*RULES, *(slug.partition("/")[2] for slug in RULES), *(field.path for field in fields())]
    best = Spellings([*names, *(field.path.rpartition(".")[2] for field in fields())]).nearest(name)
    close = difflib.get_close_matches(name, names, n=_SUGGESTIONS)
    return tuple(dict.fromkeys([*([best] if best else []), *close]))[:_SUGGESTIONS]


def _rule(rule: Rule) -> str:
    return f"{rule.slug}  ({rule.severity})\n\n{rule.why}\n\n{rule.explanation}\n"


def _wrapped(meaning: str) -> str:
    return textwrap.fill(meaning, _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _fields(name: str, found: Iterable[Field]) -> str:
    """Fields of one meaning are told once, with every place they have."""
    places: dict[tuple[str, str, str, str, Effect], list[str]] = {}
    for field in found:
        meaning = (field.file, field.meaning, field.takes, field.default, field.effect)
        places.setdefault(meaning, []).append(field.path)
    told = [
        f"  {', '.join(paths)}  in {file}\n"
        f"{_wrapped(meaning)}\n"
        f"    takes    {takes}\n"
        f"    default  {default}\n"
        f"    change   {_EFFECTS[effect]}\n"
        for (file, meaning, takes, default, effect), paths in places.items()
    ]
    return f"{name}\n\n" + "\n".join(told)
