"""Which GPU counts would pass: the count rules asked again for every count that the inventory has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reconciler.domain.desired import Where
    from reconciler.domain.finding import Problem
    from reconciler.gate.rule import Rule
    from reconciler.gate.subject import Context, Use


class Passing:
    """The counts that pass, worked out once a profile however many rules refuse its count."""

    def __init__(self, rules: Iterable[Rule], context: Context) -> None:
        self._judges = tuple(rule for rule in rules if rule.counts)
        self._context = context
        self._counts: dict[Where, tuple[int, ...] | None] = {}

    def counts(self, where: Where) -> tuple[int, ...] | None:
        """The counts per replica and node that no rule with `counts` refuses, ascending; () where none passes.

        `where` is a profile's place. Candidates are 1 to the most GPUs of its class on one node that its select leaves.
        None where no count is meant: elsewhere, on CPUs, and where the inventory could not be read.
        """
        if where not in self._counts:
            use = self._context.use_by_where.get(where)
            self._counts[where] = None if use is None else self._worked_out(use)
        return self._counts[where]

    def _worked_out(self, use: Use) -> tuple[int, ...] | None:
        profile, inventory = use.profile, self._context.inventory
        if profile.gpu_class is None or inventory is None:
            return None
        most = max((kind.gpus for kind in inventory.kinds(profile.gpu_class, profile.select or {})), default=0)
        return tuple(count for count in range(1, most + 1) if not self._refused(use.with_gpus(count)))

    def _refused(self, use: Use) -> bool:
        context = self._context.only(use)
        return any(
            (problem.severity or rule.severity) is Severity.ERROR
            for rule in self._judges
            for problem in _problems(rule, context)
        )


def _problems(rule: Rule, context: Context) -> Iterator[Problem]:
    if rule.check is not None:
        yield from rule.check(context)
