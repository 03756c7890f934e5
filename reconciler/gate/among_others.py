"""Which of the counts that pass for a model alone pass beside all others too: the last of the rules on a count.

The other rules judge one profile, and what they say is kept for as long as its files are the same. This one hangs on
every other model's minimum, so it is asked of the findings of a run, after all the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.gate.together import QUICK, is_possible
from reconciler.placement.needs import Ask, need_of
from reconciler.placement.packing import Packer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from reconciler.domain.finding import Finding
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.gate.room import Room, Trial
    from reconciler.placement.packing import Packing

TRIALS = 24
"""Packings a run may try for this, in a fleet of 1,000 models about 0.6 s of work; models that are alike share them."""


@dataclass(slots=True)
class AmongOthers:
    """One run over one tree."""

    room: Room
    _asked: set[Trial] = field(default_factory=set)
    """What was tried in this run, or would have been if an earlier one had not."""

    def told(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """The findings, without the counts with which the model could not be placed beside the others' minimums.

        A count goes only where that is proved, as for inventory/overcommitted, and stays where the others do not fit
        among themselves, since no count would help. What cannot be tried any more stays too.
        """
        together = self.room.together
        for finding in findings:
            model = together.desired.model_by_name.get(finding.model or "")
            if finding.valid and model is not None and finding.profile is not None and together.is_understood:
                yield finding.model_copy(update={"valid": self._passing(model, finding.profile, finding.valid)})
            else:
                yield finding

    def _passing(self, model: ModelSpec, profile: str, counts: tuple[int, ...]) -> tuple[int, ...]:
        """A smaller count fits wherever a larger one does, so the largest that passes is looked for by halving."""
        if not model.replicas or model.suspend:
            return counts
        low, high = self._sure(model, profile, counts), len(counts)
        while low < high:
            middle = (low + high + 1) // 2
            competes = self._competes(model, profile, counts[middle - 1])
            if competes is None:
                return counts
            low, high = (low, middle - 1) if competes else (middle, high)
        return counts[:low]

    def _sure(self, model: ModelSpec, profile: str, counts: tuple[int, ...]) -> int:
        """How many of them are no more than what is written, where that has room."""
        written = next((need_of(each).gpus for each in model.profiles if each.name == profile), 0)
        lasting = self.room.together.lasting
        short = any(model.name in each.models for each in lasting.conflicts)
        placed = any(ask.model == model.name for ask in self.room.together.active)
        return sum(count <= written for count in counts) if placed and not short else 0

    def _competes(self, model: ModelSpec, profile: str, count: int) -> bool | None:
        """Whether it is proved that the model has no room then; None where too much has been tried already."""
        ways = (each.model_copy(update={"gpus": count}) if each.name == profile else each for each in model.profiles)
        needs = tuple(filter(is_possible, dict.fromkeys(need_of(each) for each in ways)))
        before = self.room.together.ask_by_model.get(model.name)
        trial: Trial = (None if before is None else before.needs, model.replicas, needs)
        if trial not in self._asked:
            if len(self._asked) >= TRIALS:
                return None
            self._asked.add(trial)
        if trial not in self.room.trials:
            self.room.trials[trial] = self._is_short(Ask(model.name, model.replicas, needs))
        return self.room.trials[trial]

    def _is_short(self, ask: Ask) -> bool:
        """Whether it is in a conflict that the others do not have among themselves."""
        others = [each for each in self.room.together.active if each.model != ask.model]
        for conflict in self._packed([ask, *others]).conflicts:
            if ask.model in conflict.models:
                rest = [each for each in others if each.model in conflict.models]
                return not self._packed(rest).conflicts
        return False

    def _packed(self, asks: Sequence[Ask]) -> Packing:
        packer = Packer(self.room.together.bins, (need for each in asks for need in each.needs))
        return packer.pack(packer.placeable(asks), QUICK)
