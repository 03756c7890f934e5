"""How each engine version counts memory, out of one table."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from reconciler.domain.flag_tables import flag_table
from reconciler.domain.model_spec import Engine
from reconciler.domain.tables import table
from reconciler.sizing.counting import CountingRules, Division, Windows
from reconciler.sizing.refusal import version_key

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def counting_rules(engine: Engine, version: str | None) -> CountingRules:
    """The rules of this version; of the newest one in the flag tables where none is named.

    `known` is False for a version outside the range that was read, or one that does not say its number: then the rules
    are those of the nearest version.
    """
    rows = table("counting")[engine.value]
    asked = version or flag_table(engine, None).version
    number = _number(engine, asked)
    first, last = version_key(rows["read"]["from"]), version_key(rows["read"]["before"])
    rules: dict[str, Any] = dict(rows["base"])
    for change in rows["changes"]:
        # A version without a number is most likely built from newer code than any release read.
        if not number or number >= version_key(change["from"]):
            rules |= change
    return _rules(engine, asked, rules, known=bool(number) and first <= number < last)


def _number(engine: Engine, version: str) -> tuple[int, ...]:
    """The release; llama.cpp counts builds: b11549, 11549, and xllamacpp's 2026.10.11549 are one."""
    number = version_key(version)
    return number[-1:] if engine is Engine.LLAMACPP else number


def _rules(engine: Engine, version: str, row: Mapping[str, Any], *, known: bool) -> CountingRules:
    return CountingRules(
        engine=engine,
        version=version,
        division=Division(row["division"]),
        share=row["share"],
        windows=Windows(row["windows"]),
        block_tokens=row["block_tokens"],
        graphs_inside=row["graphs_inside"],
        refuses_short_pool=row.get("refuses_short_pool", True),
        known=known,
        batches_in_flight=row.get("batches_in_flight", 1),
        states_per_request=row.get("states_per_request", 1),
        tokens_by_request=row.get("tokens_by_request", False),
        refuses_many_states=row.get("refuses_many_states", False),
    )
