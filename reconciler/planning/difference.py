"""Which declared fields differ between what runs and what is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.adapter_slots import room_for
from reconciler.domain.plan import FieldChange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.domain.declaration import Declaration

HIDDEN = "(text, not shown)"
"""Stands in plans for the value of an environment variable."""


def compare(before: Declaration, after: Declaration) -> tuple[FieldChange, ...]:
    """The fields that differ, sorted and dotted; lists as a whole, what is not declared as None.

    Variables show that they changed, never to what: secrets by their name, and text not at all, since people do write
    secrets there (promise 9).
    """
    left, right = dict(_flat(before.declared())), dict(_flat(after.declared()))
    room, needed = room_for(len(before.adapters)), room_for(len(after.adapters))
    if before.loads_adapters and after.loads_adapters and needed > room:
        left["adapters.room"], right["adapters.room"] = room, needed  # what takes the restart
    names = sorted(left.keys() | right.keys())
    return tuple(
        FieldChange(field=name, before=_told(name, left.get(name)), after=_told(name, right.get(name)))
        for name in names
        if left.get(name) != right.get(name)
    )


def _told(name: str, value: Any) -> Any:
    return HIDDEN if name.startswith("env.") and isinstance(value, str) else value


def _flat(declared: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """`env.HF_HOME` for each variable; a secret stays `{secret: name}`."""
    for name, value in declared.items():
        if name == "env":
            yield from ((f"env.{variable}", text) for variable, text in value.items())
        else:
            yield name, value
