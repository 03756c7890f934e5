"""Which findings a change did not cause: those that its base had already."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.domain.finding import Finding

_LINE = re.compile(r"(?<=\.yaml:)\d+|(?<=\.json:)\d+|(?<=on line )\d+")
"""Line numbers that messages quote: lines move when something above them does."""


def marked(findings: Iterable[Finding], base: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings in their order, each with `caused`: False where the base had the same one.

    The same is: rule, severity, file, model, profile and words. Its line does not count; a number in its words does,
    since a fleet that is 9 GPUs short because of this change was not 9 short before. Where the base had fewer of the
    same, the first are taken to be the base's.
    """
    left = Counter(_identity(each) for each in base)
    told = []
    for each in findings:
        key = _identity(each)
        told.append(each.model_copy(update={"caused": left[key] <= 0}))
        left[key] -= 1
    return tuple(told)


def _identity(finding: Finding) -> tuple[str | None, ...]:
    return (
        finding.rule,
        finding.severity,
        finding.file,
        finding.model,
        finding.profile,
        _LINE.sub("", finding.message),
    )
