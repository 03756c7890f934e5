"""Node ranges as Slurm and Ansible write them: `gpu-[01-16]`, `gpu-[01-04,07]`, `r[1-2]n[1-3]`."""

from __future__ import annotations

import itertools
import re

from reconciler.domain.base import NAME_PATTERN
from reconciler.sources.fault import shorten

# The largest fleet that the design plans for; a range beyond it is a slip of the finger.
NAMES_LIMIT = 10_000

_NAME = re.compile(NAME_PATTERN)
_PART = re.compile(r"\[(?P<inside>[^\[\]]*)\]|(?P<plain>[^\[\]]+)|(?P<stray>[\[\]])")
_BOUND = re.compile(r"[0-9]{1,9}")


def expand(text: str) -> tuple[str, ...]:
    """Every node name of a range, in the order written; zero padding is kept. ValueError says what is wrong with it."""
    if "," in re.sub(r"\[[^\]]*\]", "", text):
        raise ValueError("holds a comma outside the brackets: write one list item for each range")
    labels: list[list[str]] = []
    count = 1
    for part in _PART.finditer(text):
        if part["stray"]:
            raise ValueError(f"has a {part['stray']} without its partner: write PREFIX-[FIRST-LAST]")
        spans = _spans(part["inside"]) if part["inside"] is not None else None
        count *= 1 if spans is None else sum(len(numbers) for numbers, _ in spans)
        if count > NAMES_LIMIT:
            raise ValueError(f"makes more than {NAMES_LIMIT:,} names")
        labels.append([part["plain"]] if spans is None else _numerals(spans))
    names = tuple("".join(parts) for parts in itertools.product(*labels))
    _check(names)
    return names


def _spans(inside: str) -> list[tuple[range, int]]:
    """The numbers between two brackets, each run with the width its numbers are padded to."""
    if not inside.strip():
        raise ValueError("has empty brackets: write [FIRST-LAST]")
    return [_span(piece.strip()) for piece in inside.split(",")]


def _numerals(spans: list[tuple[range, int]]) -> list[str]:
    return [f"{number:0{width}d}" for numbers, width in spans for number in numbers]


def _span(piece: str) -> tuple[range, int]:
    first, dash, last = piece.partition("-")
    if not dash:
        last = first
    if not (_BOUND.fullmatch(first) and _BOUND.fullmatch(last)):
        instead = f"; write [{piece.replace(':', '-')}]" if re.fullmatch(r"[0-9]+:[0-9]+", piece) else ""
        raise ValueError(f"has {shorten(piece)!r} between brackets, which is no number and no FIRST-LAST{instead}")
    if int(first) > int(last):
        raise ValueError(f"runs backwards: {first} is after {last}")
    # [1-16] pads nothing and [01-16] pads to two digits; [1-016] could be meant either way.
    if len(last) > 1 and last.startswith("0") and len(first) != len(last):
        raise ValueError(f"pads {first} and {last} differently: write [{first.zfill(len(last))}-{last}]")
    return range(int(first), int(last) + 1), len(first) if first.startswith("0") else 1


def _check(names: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"makes {shorten(name)!r}, which is no node name: a-z, 0-9, dot, dash, underscore, at most 63"
            )
        if name in seen:
            raise ValueError(f"makes {name} twice")
        seen.add(name)
    if not names:
        raise ValueError("is empty")
