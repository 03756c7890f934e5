"""The words in which a script tells of times and of how launches go."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from reconciler.fleet.simulated_engine import Course
from tests.scenarios.rehearsal import Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

COURSE = {
    "load": "load_seconds",
    "fails": "failure",
    "silent": "silent",
    "drain": "drain_seconds",
    "exit": "exit_seconds",
    "frees": "frees_seconds",
    "notices": "notices_seconds",
}


def seconds(text: str) -> float:
    """`1:40` is 100."""
    minutes, _, rest = str(text).rpartition(":")
    return int(minutes or 0) * 60 + int(rest)


def rule(given: Mapping[str, Any]) -> Rule:
    """`{model: qwen, context: 8192, load: 90, fails: out of memory}`."""
    course = {field: given[word] for word, field in COURSE.items() if word in given}
    course |= {field: inf for field, value in course.items() if value == "never"}
    which = {word: each for word, each in given.items() if word not in COURSE}
    return Rule(Course(**course), **which)
