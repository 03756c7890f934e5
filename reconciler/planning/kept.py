"""What one plan worked out and the next of nearly the same fleet takes over: `why` plans a dozen small changes.

It changes no answer. Everything is kept with the very values that it was worked out from, and worked out again where
one of them is another: the next plan differs in a model, a node or an intent, and shares all the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_not
from typing import TYPE_CHECKING

from reconciler.placement.demand import demands
from reconciler.placement.stock import stock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.fleet_spec import FleetSpec
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.domain.observed import Observation, ReachableNode
    from reconciler.placement.demand import Demand
    from reconciler.placement.room import NodeRoom, Room
    from reconciler.placement.stock import Stock
    from reconciler.planning.aim import Aim

    Reserved = tuple[tuple[float, int], ...]


@dataclass(slots=True)
class Kept:
    """Aims and demands of models, and stocks and rooms of nodes, by name."""

    _aims: dict[str, tuple[tuple[object, ...], Aim]] = field(default_factory=dict)
    _demands: dict[str, tuple[FleetSpec, ModelSpec, tuple[Demand, ...]]] = field(default_factory=dict)
    _stocks: dict[str, tuple[Node | None, ReachableNode, Stock]] = field(default_factory=dict)
    _rooms: dict[str, tuple[Stock, Reserved, NodeRoom]] = field(default_factory=dict)
    _whole: tuple[tuple[Node, ...], Observation, Mapping[str, str], Reserved, Room] | None = None
    """The first room of all nodes, which most of what follows shares: it is copied, never changed."""

    def aim(self, name: str, ground: tuple[object, ...], work_out: Callable[[], Aim]) -> Aim:
        """The aim of a model that follows from these values; they are compared by identity."""
        known = self._aims.get(name)
        if known is None or len(known[0]) != len(ground) or any(map(is_not, known[0], ground)):
            known = self._aims[name] = (ground, work_out())
        return known[1]

    def demands(self, desired: Desired, spec: ModelSpec) -> tuple[Demand, ...]:
        """The demands of a model that is not planned, or not planned again."""
        known = self._demands.get(spec.name)
        if known is None or known[0] is not desired.fleet or known[1] is not spec:
            known = self._demands[spec.name] = (desired.fleet, spec, demands(desired, spec))
        return known[2]

    def stocks(self, desired: Desired, heard: Iterable[ReachableNode]) -> list[Stock]:
        """What each node offers."""
        node_by_name = desired.node_by_name
        found = []
        for each in heard:
            node, known = node_by_name.get(each.name), self._stocks.get(each.name)
            if known is None or known[0] is not node or known[1] is not each:
                known = self._stocks[each.name] = (node, each, stock(desired, each))
            found.append(known[2])
        return found

    def whole(
        self,
        desired: Desired,
        observed: Observation,
        given_up: Mapping[str, str],
        reserve: Callable[[RunEntry], tuple[float, int]],
        work_out: Callable[[], Room],
    ) -> Room:
        """The room of all nodes: a copy of the first one where only models differ, and none that reserves otherwise."""
        reserved = tuple(reserve(replica.entry) for _, replica in observed.replicas())
        if self._whole is None:
            self._whole = (desired.nodes, observed, given_up, reserved, work_out())
        nodes, seen, closed, known, room = self._whole
        is_same = nodes is desired.nodes and seen is observed and closed == given_up and known == reserved
        return room.copy() if is_same else work_out()

    def room(self, of: Stock, reserved: Reserved, work_out: Callable[[], NodeRoom]) -> NodeRoom:
        """The room of a node whose replicas reserve so much: shared, so that whoever changes it copies it first."""
        known = self._rooms.get(of.heard.name)
        if known is None or known[0] is not of or known[1] != reserved:
            known = self._rooms[of.heard.name] = (of, reserved, work_out())
        return known[2]
