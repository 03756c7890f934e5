"""Which GPU counts would pass: the count rules asked again for every count that the inventory has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reconciler.domain.finding import Problem
    from reconciler.gate.context import Context, Use
    from reconciler.gate.rule import Rule


def valid_counts(rules: Iterable[Rule], context: Context, use: Use) -> tuple[int, ...] | None:
    """The counts per replica and node that no rule with `counts` refuses, ascending; () where none passes.

    Candidates are 1 to the most GPUs of the profile's class on one node that its select leaves.
    None where no count is meant: on CPUs, and where the inventory could not be read.
    """
    profile = use.profile
    if profile.gpu_class is None or context.inventory is None:
        return None
    judges = [rule for rule in rules if rule.counts]
    kinds = context.inventory.kinds(profile.gpu_class, profile.select or {})
    most = max((kind.gpus for kind in kinds), default=0)
    return tuple(count for count in range(1, most + 1) if not _refused(judges, context.only(use.with_gpus(count))))


def _refused(judges: Iterable[Rule], context: Context) -> bool:
    return any(
        (problem.severity or rule.severity) is Severity.ERROR for rule in judges for problem in _problems(rule, context)
    )


def _problems(rule: Rule, context: Context) -> Iterator[Problem]:
    if rule.check is not None:
        yield from rule.check(context)
