"""Whether a replica could be replaced beside itself once everything runs, and what would make room for that.

Room is asked of all packings, not of the one that was found first: what runs where is not known before a plan, and a
warning that a lucky placement would refute helps nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reconciler.gate.capacity import GPU_COUNTS
from reconciler.gate.competing import TRIED
from reconciler.gate.phrases import number
from reconciler.placement.needs import MICRO, Ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.gate.together import Together
    from reconciler.placement.needs import Bin, Need

_ONE_MORE = "one more"
"""Stands for the successor; a model's name has no space."""


@dataclass(slots=True)
class Beside:
    """The answers for one tree, each way to run a replica asked once."""

    together: Together

    _known: dict[tuple[Need, ...], bool] = field(default_factory=dict)
    _ways: dict[tuple[Need, ...], tuple[str | None, tuple[str, int] | None]] = field(default_factory=dict)

    def has_room(self, ask: Ask) -> bool:
        """Whether one replica more of this has room when every minimum runs."""
        if ask.needs not in self._known:
            filling = self.together.today.filling
            free_now = any(filling.seats(need) is not None for need in ask.needs)
            # Where too much has been asked already, what was found first decides: it is a warning, not a refusal.
            self._known[ask.needs] = free_now or self._fits(ask, self.together.bins_in_service) is True
        return self._known[ask.needs]

    def shortage(self, ask: Ask) -> str:
        """`no node has 6 h100-80gb free (4 at most, gpu-03)`, of the way that is tried first."""
        need = ask.needs[0]
        most, name = self._most(need)
        if need.gpu_class is None:
            return f"no node has {_rest(need)} left"
        if need.nodes > 1:
            return f"no {need.nodes} nodes have {need.gpus} {need.gpu_class} free each"
        if most >= need.gpus:
            return f"no node with {need.gpus} {need.gpu_class} free has {_rest(need)} left"
        return f"no node has {need.gpus} {need.gpu_class} free ({most} at most, {name})"

    def ways(self, ask: Ask) -> Iterator[str]:
        """What would make room, each checked by packing everything again: GPUs on one node, another model smaller."""
        if ask.needs not in self._ways:
            self._ways[ask.needs] = (self._more_gpus(ask), self._smaller(ask))
        more, smaller = self._ways[ask.needs]
        if more is not None:
            yield more
        if smaller is not None and smaller[0] != ask.model:
            yield f"scaling.min: {smaller[1]} in {smaller[0]}"

    def _more_gpus(self, ask: Ask) -> str | None:
        need = ask.needs[0]
        most, name = self._most(need)
        wider = self._wider(need, most, name)
        if wider is None or self._fits(ask, wider) is not True:
            return None
        return f"{need.gpus - most} more {need.gpu_class} on {name}"

    def _smaller(self, ask: Ask) -> tuple[str, int] | None:
        """A model and its minimum less one."""
        by_model = self.together.ask_by_model
        candidates = [each for each in self.together.least_important(by_model) if self._meets(ask, by_model[each])]
        for model in candidates[:TRIED]:
            fewer = by_model[model].count - 1
            asks = [replace(each, count=fewer) if each.model == model else each for each in self.together.asks]
            if self.together.fits(self.together.bins_in_service, [*asks, _one_more(ask)]) is True:
                return model, fewer
        return None

    def _meets(self, ask: Ask, other: Ask) -> bool:
        """Whether another model has a replica to spare and could run on the cards of this one."""
        shared = {need.gpu_class for need in ask.needs} & {need.gpu_class for need in other.needs}
        return other.model != ask.model and other.count > 1 and bool(shared)

    def _fits(self, ask: Ask, bins: tuple[Bin, ...]) -> bool | None:
        return self.together.fits(bins, [*self.together.asks, _one_more(ask)])

    def _most(self, need: Need) -> tuple[int, str | None]:
        """The most GPUs of its class that are free on one node, and the first node by name that has as many."""
        filling, board = self.together.today.filling, self.together.today.filling.board
        offering = ((state, names) for state, names in filling.names.items() if board.offers(need, state))
        free, name = min(((-board.free(need, state), names[0]) for state, names in offering), default=(0, None))
        return -free, name

    def _wider(self, need: Need, most: int, name: str | None) -> tuple[Bin, ...] | None:
        """The nodes, with as many more GPUs on that one as are missing there; None where no node could hold them."""
        if name is None or need.gpu_class is None or not need.gpus - most > 0:
            return None
        bins = {each.name: each for each in self.together.bins_in_service}
        gpus: Mapping[str, int] = bins[name].gpus
        total = gpus.get(need.gpu_class, 0) + need.gpus - most
        if total not in GPU_COUNTS:
            return None
        bins[name] = replace(bins[name], gpus={**gpus, need.gpu_class: total})
        return tuple(bins.values())


def _one_more(ask: Ask) -> Ask:
    return Ask(_ONE_MORE, 1, ask.needs)


def _rest(need: Need) -> str:
    memory = f"{number(need.memory / MICRO)} GiB of host RAM" if need.memory else None
    cores = f"{need.cpu_cores} CPU cores" if need.cpu_cores else None
    return " and ".join(each for each in (memory, cores) if each) or "room"
