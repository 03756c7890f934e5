"""Numbers given as options, held to what they may be, in words of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Callable


def between(low: float, high: float) -> Callable[[float | None], float | None]:
    """A callback that takes what is not given, and numbers from `low` to `high`."""

    def check(value: float | None) -> float | None:
        if value is not None and not low <= value <= high:  # nan is in no range
            raise typer.BadParameter(f"{value:.15g} is not a number from {low:.15g} to {high:,.15g}")
        return value

    return check
