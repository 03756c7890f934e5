"""What the tree held when it was last made real: what a removal is measured against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.base import FORMAT_VERSION, Count, Flag, Frozen, Name

if TYPE_CHECKING:
    from reconciler.domain.desired import Desired


class RosterRow(Frozen):
    """One model as its file said."""

    replicas: Count
    protect: Flag = False
    """Its replicas are never deleted because its file is gone."""


class Roster(Frozen):
    """Models by name."""

    format_version: str = FORMAT_VERSION
    models: dict[Name, RosterRow]


def roster_of(desired: Desired) -> Roster:
    """What a tree holds."""
    rows = {model.name: RosterRow(replicas=model.replicas, protect=model.protect) for model in desired.models}
    return Roster(models=rows)
