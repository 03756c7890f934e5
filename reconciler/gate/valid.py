"""Which GPU counts would pass: the count rules asked again for every count that the inventory has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from reconciler.domain.desired import Where
    from reconciler.domain.finding import Problem
    from reconciler.gate.rule import Rule
    from reconciler.gate.subject import Context, Use


_GIB = 2**30


@dataclass(frozen=True, slots=True)
class _Counts:
    passing: tuple[int, ...]
    too_large: str | None


class Passing:
    """The counts that pass, worked out once a profile however many rules refuse its count."""

    def __init__(self, rules: Iterable[Rule], context: Context) -> None:
        self._judges = tuple(rule for rule in rules if rule.counts)
        self._beside_memory = tuple(rule for rule in self._judges if not _is_memory(rule))
        self._context = context
        self._found: dict[Where, _Counts | None] = {}
        self._placed: dict[Hashable, bool] = {}

    def counts(self, where: Where) -> tuple[int, ...] | None:
        """The counts per replica and node that no rule with `counts` refuses, ascending; () where none passes.

        `where` is a profile's place. Candidates are 1 to the most GPUs of its class on one node that its select leaves.
        None where no count is meant: elsewhere, on CPUs, and where the inventory could not be read.
        """
        found = self._of(where)
        return None if found is None else found.passing

    def too_large(self, where: Where) -> str | None:
        """`2 splits, but needs 76.9 of 72.8 GiB a GPU`, of the largest count that only memory refuses."""
        found = self._of(where)
        return None if found is None else found.too_large

    def passes(self, use: Use) -> bool:
        """Whether no rule with `counts` refuses the profile as it is given here, of which memory is known to do."""
        profile = use.profile
        asked = (use.where, use.gpus, profile.gpu_class, profile.nodes, profile.memory_gib)
        if asked not in self._placed:  # nothing else of what a remedy changes is looked at by the rules beside memory
            self._placed[asked] = self._refuser(use, self._beside_memory) is None
        return self._placed[asked]

    def _of(self, where: Where) -> _Counts | None:
        if where not in self._found:
            use = self._context.use_by_where.get(where)
            self._found[where] = None if use is None else self._worked_out(use)
        return self._found[where]

    def _worked_out(self, use: Use) -> _Counts | None:
        profile, inventory = use.profile, self._context.inventory
        if profile.gpu_class is None or inventory is None:
            return None
        most = max((kind.gpus for kind in inventory.kinds(profile.gpu_class, profile.select or {})), default=0)
        changed = [use.changed(gpus=count) for count in range(1, most + 1)]
        refusers = [self._refuser(each, self._judges) for each in changed]
        splitting = [
            each for each, rule in zip(changed, refusers, strict=True) if rule is not None and _is_memory(rule)
        ]
        return _Counts(
            tuple(each.gpus for each, rule in zip(changed, refusers, strict=True) if rule is None),
            self._lacking(splitting[-1]) if splitting else None,
        )

    def _refuser(self, use: Use, judges: Iterable[Rule]) -> Rule | None:
        """The first rule that refuses it. Rules come by slug, so memory speaks where heads and inventory do not."""
        context = self._context.only(use)
        for rule in judges:
            for problem in _problems(rule, context):
                if (problem.severity or rule.severity) is Severity.ERROR:
                    return rule
        return None

    def _lacking(self, use: Use) -> str | None:
        held = self._context.knowledge.sized(use).per_gpu
        if held is None or held.needs.likely <= held.usable:
            return None
        needs = f"needs {held.needs.likely / _GIB:.1f} of {held.usable / _GIB:.1f} GiB a GPU"
        return f"{use.gpus} splits, but {needs}"


def _is_memory(rule: Rule) -> bool:
    return rule.slug.startswith("memory/")


def _problems(rule: Rule, context: Context) -> Iterator[Problem]:
    if rule.check is not None:
        yield from rule.check(context)
