"""Trying one change of a profile for one finding: whether it would pass, and the most of a number that does.

Each try sizes the profile anew, which is what a remedy costs; where arithmetic gives the answer nearly, that is tried
first, and where it rules a change out, nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.gate import context as lengths
from reconciler.gate import memory
from reconciler.sizing.sized import FitVerdict, MemoryReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.gate.rule import Rule
    from reconciler.gate.subject import Context, Use
    from reconciler.gate.valid import Passing
    from reconciler.sizing.sized import Sized

_SHORT = frozenset({MemoryReason.POOL.value, MemoryReason.SLOTS.value})
"""Rules on a cache that is too small for the requests that are let in at once."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change as a person would write it, and the profile with it."""

    words: str
    use: Use


@dataclass(slots=True)
class Search:
    """What is asked about one finding."""

    rule: Rule
    use: Use
    context: Context
    passing: Passing
    verdict: FitVerdict = FitVerdict.FITS

    @property
    def sized(self) -> Sized:
        """What a GPU would hold as the profile is written."""
        return self.context.knowledge.sized(self.use)

    @property
    def held(self) -> float | None:
        """Requests that may be let in at once, for a finding that says there are more; None for others."""
        if self.rule.slug not in _SHORT:
            return None
        told = next((each for each in self.sized.remarks if each.reason.value in _SHORT and each.certain), None)
        if told is not None or self.sized.concurrency is None:
            return None if told is None else told.held
        return self.sized.concurrency * lengths.beyond_full_length(self.use.profile.engine)

    def helps(self, times: float) -> bool:
        """Whether a cache that holds so many times as much could be enough; True where that is not the question."""
        wanted, held = self.use.profile.max_concurrency, self.held
        # What it holds is rounded down here and there, so one request more may be nearly there already.
        return wanted is None or held is None or (held + 1) * times >= wanted

    def longest(self) -> int | None:
        """Tokens of a request for which the need comes down to what there is; None where no length does that.

        A request takes about as much for each token, so the excess over all of them tells how many are too many.
        """
        held, context = self.sized.per_gpu, self.use.model.context
        if held is None or context is None or not held.kv_one_request:
            return context
        need = held.needs.high if self.verdict is FitVerdict.FITS else held.needs.likely
        left = 1 - (need - held.usable) / held.kv_one_request
        # Groups of unlike layers are filled up, which takes up to as much again (sizing.sized.Breakdown).
        return None if left < -1 else max(1, int(context * left))

    def accepts(self, changed: Use) -> bool:
        """Whether the profile likely fits as changed, no count rule refuses it, and this finding is gone or a note."""
        sized = self.context.knowledge.sized(changed)
        likely = sized.per_gpu is None or sized.per_gpu.needs.likely <= sized.per_gpu.usable
        if sized.verdict is not self.verdict or not likely or self.refused(changed):
            return False  # most of what is tried ends here, before all rules are asked
        # Fewer requests that only bring the other warning would send a person here twice.
        rules = (memory.pool, lengths.slots) if self.rule.slug in _SHORT else (self.rule,)
        asked = self.context.only(changed)
        told = (problem for rule in rules if rule.check is not None for problem in rule.check(asked))
        return self.passing.passes(changed) and all(each.severity is Severity.NOTE for each in told)

    def refused(self, changed: Use) -> bool:
        """Whether the engine refuses the model's shape so, whatever memory says."""
        return any(each.severity is Severity.ERROR for each in self.context.knowledge.refusals(changed))

    def most(self, below: int, step: int, changed: Callable[[int], Use], near: int | None = None) -> int | None:
        """The largest multiple of `step` under `below` that is accepted; None where none is. More never fits better.

        `near` is where it is likely to be: steps from there double until the answer is between two of them.
        """
        low, high = 0, (below - 1) // step
        at, stride = min(high, max(1, (near or below // 2) // step)), 1
        while low < high:
            if self.accepts(changed(at * step)):
                low, at = at, at + stride
            else:
                high, at = at - 1, at - stride
            stride *= 2
            if not low < at <= high or (low and stride > high - low):
                at = (low + high + 1) // 2
        return low * step or None
