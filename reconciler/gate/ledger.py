"""GPUs of each class before and after a change, and the most in use at once while it is rolled out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.comparison import LedgerRow
from reconciler.domain.model_spec import Strategy
from reconciler.gate.sides import half_read, pairs

if TYPE_CHECKING:
    from collections.abc import Collection

    from reconciler.domain.model_spec import ModelSpec
    from reconciler.gate.sides import Pair, Side


@dataclass(frozen=True, slots=True)
class _Holding:
    """What one side of a model holds."""

    gpu_class: str | None
    gpus: int
    """Of one replica."""
    replicas: int

    @property
    def total(self) -> Counter[str]:
        """Of all its replicas."""
        return self.of(self.replicas)

    def of(self, replicas: int) -> Counter[str]:
        """Of so many of them."""
        return Counter({self.gpu_class: self.gpus * replicas} if self.gpu_class is not None else {})


def ledger(before: Side, after: Side, replaced: Collection[str]) -> tuple[LedgerRow, ...]:
    """A row for each GPU class that a node has or a model asks for, sorted.

    `replaced` are the models that this change must replace. The peak takes all rollouts to go on at once, each at its
    fullest moment, and nothing that is removed to have gone before the others begin.
    """
    was, then, peak = Counter[str](), Counter[str](), Counter[str]()
    for pair in pairs(before, after):
        one, other = _holding(pair.before, before), _holding(pair.after, after)
        was += one.total
        then += other.total
        peak += _peak(pair, one, other, after) if pair.name in replaced else one.total | other.total
    for side, model in half_read(before, after):
        held = _holding(model, side).total
        was, then, peak = was + held, then + held, peak + held
    total = _in_service(after)
    return tuple(
        LedgerRow(
            gpu_class=name,
            total=total[name],
            before=was[name],
            after=then[name],
            peak=min(peak[name], total[name]),
            short=max(0, peak[name] - total[name]),
            free=max(0, total[name] - then[name]),
        )
        for name in sorted({*total, *peak})
    )


def _holding(model: ModelSpec | None, side: Side) -> _Holding:
    use = None if model is None else side.use(model)
    if model is None or use is None:
        return _Holding(None, 0, 0)
    return _Holding(use.profile.gpu_class, use.gpus * use.profile.nodes, model.replicas)


def _peak(pair: Pair, one: _Holding, other: _Holding, after: Side) -> Counter[str]:
    """The fullest moment of one rollout: its first surge, or its last.

    With `surge` replicas beside, either all of the base and the first of the successors run, or all of the successors
    and the last of the base. In place the first has stopped before its successor starts.
    """
    assert pair.after is not None  # noqa: S101  # what is replaced is there
    policy = after.desired.policy(pair.after)
    surge = 0 if policy.strategy is Strategy.IN_PLACE else policy.max_surge
    first = one.total + other.of(min(surge, other.replicas))
    last = one.of(min(surge, one.replicas)) + other.total
    return first | last


def _in_service(side: Side) -> Counter[str]:
    """GPUs by class that are not drained."""
    total = Counter[str]()
    for gpu_class in side.inventory.classes:
        total[gpu_class] = sum(kind.in_service * len(kind.nodes) for kind in side.inventory.kinds(gpu_class, {}))
    return total
