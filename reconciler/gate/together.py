"""All minimums of a tree on its inventory, packed once a run: what the rules about room have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.gate.capacity import GPU_COUNTS, is_known
from reconciler.placement.needs import Ask, bins_of, minimums
from reconciler.placement.packing import Packer
from reconciler.planning.aim import importance, importance_rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reconciler.domain.desired import Desired
    from reconciler.placement.needs import Bin, Need
    from reconciler.placement.packing import Packing

AGAIN = 24
"""Packings that may be asked for beside the two of every run, in a fleet of 1,000 models about 0.6 s of work.

They check what would help and whether one more replica has room. Who comes later is told without a checked way out.
"""

QUICK = 100_000
"""Node states that exact search may look at for one of these: a tenth of what the fleet itself may cost."""


@dataclass
class Together:
    """One tree, whose inventory could be read."""

    desired: Desired
    asked: int = 0
    """Packings asked for so far, beside those of every run."""

    @cached_property
    def is_understood(self) -> bool:
        """Whether every node's GPUs have a known class and a count that a node can have: else nothing is certain."""
        groups = [group for node in self.desired.nodes for group in node.gpus]
        names = {group.gpu_class for group in groups}
        return all(group.count in GPU_COUNTS for group in groups) and all(is_known(self.desired, n) for n in names)

    @cached_property
    def asks(self) -> tuple[Ask, ...]:
        """The minimum of every model, without the ways that another rule refuses for their count."""
        possible = (replace(ask, needs=tuple(filter(is_possible, ask.needs))) for ask in minimums(self.desired))
        return tuple(ask for ask in possible if ask.needs)

    @cached_property
    def ask_by_model(self) -> Mapping[str, Ask]:
        """The asks by model."""
        return {ask.model: ask for ask in self.asks}

    @cached_property
    def bins(self) -> tuple[Bin, ...]:
        """Every node with everything it has: a drain ends."""
        return bins_of(self.desired.nodes, drained=True)

    @cached_property
    def bins_in_service(self) -> tuple[Bin, ...]:
        """What takes new replicas today."""
        return bins_of(self.desired.nodes, drained=False)

    @cached_property
    def lasting(self) -> Packing:
        """What must fit for the tree to be possible at all: drained nodes count, and what is suspended does not."""
        packer = Packer(self.bins, _needs(self.active))
        return packer.pack(packer.placeable(self.active))

    @cached_property
    def today(self) -> Packing:
        """What is to run on what takes replicas today."""
        if self.active == self.asks and self.bins == self.bins_in_service:
            return self.lasting  # which it mostly is
        return Packer(self.bins_in_service, _needs(self.asks)).pack(tuple(self.placed.values()))

    @cached_property
    def placed(self) -> Mapping[str, Ask]:
        """The asks of `today` by model, without the ways that no node takes today."""
        packer = Packer(self.bins_in_service, _needs(self.asks))
        return {ask.model: ask for ask in packer.placeable(self.asks)}

    @cached_property
    def active(self) -> tuple[Ask, ...]:
        """The asks of models that are not suspended."""
        return tuple(ask for ask in self.asks if not self.desired.model_by_name[ask.model].suspend)

    def fits(self, bins: Sequence[Bin], asks: Sequence[Ask]) -> bool | None:
        """Whether these would fit; None where that is not known, or too much has been asked already.

        Asks that no node takes even alone are left out, as everywhere.
        """
        if self.asked >= AGAIN:
            return None
        self.asked += 1
        packer = Packer(bins, _needs(asks))
        packing = packer.pack(packer.placeable(asks), QUICK)
        return True if packing.fits else False if packing.conflicts else None

    def least_important(self, models: Iterable[str]) -> list[str]:
        """The models in the order in which they give way: opportunistic first, then by name from the end."""
        specs = self.desired.model_by_name
        return sorted(models, key=lambda name: (importance_rank(importance(specs[name])), name), reverse=True)


def _needs(asks: Iterable[Ask]) -> Iterable[Need]:
    return (need for ask in asks for need in ask.needs)


def is_possible(need: Need) -> bool:
    """Whether a node can have as many GPUs at all: else another rule refuses the count."""
    return need.gpu_class is None or need.gpus in GPU_COUNTS
