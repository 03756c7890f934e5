"""How rules write names, numbers and what other people wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.gate.secrets import redacted

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


_IN_SECONDS = 120
"""Up to two minutes people count in seconds."""


def about(seconds: float) -> str:
    """`about 40 s`, `about 3 min`, `about 1.5 h`: an estimate, with no more digits than it deserves."""
    if seconds < _IN_SECONDS:
        return f"about {max(5, round(seconds / 5) * 5)} s"
    minutes = seconds / 60
    return f"about {minutes:.0f} min" if minutes < 60 else f"about {minutes / 60:.1f} h"  # noqa: PLR2004  # an hour


LONGEST = 500
"""Characters of a message: a terminal shows about six lines of it. Longer ones quote something that nobody reads."""


def one_line(text: str) -> str:
    """The text as one printable line of bounded length: configs and arguments hold whatever somebody put into them.

    What has the form of a secret is blanked (promise 9).
    """
    text = redacted(text)
    if len(text) > LONGEST:
        half = LONGEST // 2
        text = f"{text[:half]} … {text[-half:]}"
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    )
