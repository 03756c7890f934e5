"""Figures out of a metrics page in Prometheus' text form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LABELS = rb'\{(?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*\}'
_SAMPLE = re.compile(
    rb"^(?P<name>[A-Za-z_:][\w:]*)(?:%b)?[ \t]+(?P<value>[+-]?\d[\d.eE+-]*)(?:[ \t]+-?\d+)?[ \t\r]*$" % _LABELS,
    re.MULTILINE,
)
"""One sample: its name, whatever its labels, its value; behind it may stand a time in milliseconds."""

_MOST = 10**9
"""No engine has so many requests: a larger figure is no gauge of them."""


def total(page: bytes, names: Iterable[str]) -> int | None:
    """The sum of a gauge over all its labels, under the first of these names that the page has; None without any.

    Engines with several ranks, or several served names, give one sample each. None too when a sample is no count.
    """
    samples: dict[bytes, list[float | None]] = {}
    for found in _SAMPLE.finditer(page):
        samples.setdefault(found["name"], []).append(_number(found["value"]))
    for name in names:
        values = samples.get(name.encode())
        if values is not None:
            counts = [value for value in values if value is not None]
            return int(sum(counts)) if len(counts) == len(values) else None
    return None


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < _MOST else None
