"""How rules write names and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def listed(names: Sequence[str], most: int = 3) -> str:
    """`gpu-01, gpu-02, gpu-03 and 13 more`: a message is one line, so it writes out few."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def number(value: float) -> str:
    """A whole number without its decimals, any other with one."""
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def cards(count: int, gpu_class: str) -> str:
    """`4 h100-80gb cards`."""
    return f"{count} {gpu_class} {'card' if count == 1 else 'cards'}"
