"""One rule of the gate: a function over a `Context`, and the words that explain it.

A rule's slug is its path: `inventory/node-too-small` is `gate/inventory.py::node_too_small`.
Its docstring is what people read: the first paragraph is the one sentence of why, the rest is `reconciler explain`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reconciler.domain.finding import Problem, Severity
    from reconciler.gate.subject import Context

    Check = Callable[[Context], Iterable[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """What the gate knows of one rule."""

    slug: str
    severity: Severity
    """Of its findings, unless a problem names another."""
    why: str
    """One sentence."""
    explanation: str
    """A few paragraphs: what it checks, why it cannot work, an example, what to do."""
    check: Check | None = None
    """None for what `sources` finds while reading."""
    counts: bool = False
    """Whether it judges a profile's GPU count: then it has a say in `valid`."""
    across: Check | None = None
    """What it says of many models together, apart from what `check` says of each."""


def rule(severity: Severity, *, counts: bool = False, across: Check | None = None) -> Callable[[Check], Rule]:
    """Make a rule of a function; its name, its module and its docstring give the slug and the words."""

    def decorate(check: Check) -> Rule:
        why, explanation = words(check.__doc__ or "")
        group = check.__module__.rpartition(".")[2]
        return Rule(f"{group}/{dashed(check.__name__)}", severity, why, explanation, check, counts, across)

    return decorate


def dashed(name: str) -> str:
    """`node_too_small` or `NODE_TOO_SMALL` as `node-too-small`."""
    return name.lower().replace("_", "-")


def words(text: str) -> tuple[str, str]:
    """The first paragraph on one line, and the rest as written."""
    why, _, explanation = inspect.cleandoc(text).partition("\n\n")
    return " ".join(why.split()), explanation
