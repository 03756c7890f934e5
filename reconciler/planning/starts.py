"""How many replicas may be starting at once, in the whole fleet and on one node; the rest wait for their turn.

A start reads tens of GiB from a disk or a hub and takes minutes of cores and host RAM. Unbounded, one commit that
touches every model starts all of them at once, each slower for the others, and what is wrong with them is found out
everywhere at the same time.

Who comes first follows from the order of the planner's steps: what serves nobody, by class and name, then rollouts.
What an agent launches again by itself is counted and never asked to wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import slot_name
from reconciler.planning.matching import Match

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reconciler.domain.fleet_spec import Limits
    from reconciler.planning.counting import ModelSlots
    from reconciler.planning.matching import Held

AT_LEAST = 8
"""Starts that a share of the nodes always lets through: with fewer a fleet of two nodes of eight GPUs idles.

A share of 1,000 nodes is far above it; a count in cluster.yaml is taken as it is, below it too.
"""

PER_NODE = 4
"""Starts on one node: they share its disk, its cores and the host RAM through which weights go.

Half of the usual eight GPUs: reading eight checkpoints at once from one disk takes each of them eight times as long,
and ready_timeouts are written for one. It can rise when agents report how fast they read.
"""

NAMED = 8
"""Starts that a waiting change names; which of many ends first is not known."""

_STARTING = frozenset({ReplicaState.PENDING, ReplicaState.STARTING})


def allowed_starts(limits: Limits, nodes: int) -> int:
    """How many replicas of a fleet of so many nodes may be starting at once; always at least one."""
    written = limits.concurrent_starts
    if isinstance(written, int):
        return max(1, written)
    return max(AT_LEAST, nodes * int(written.removesuffix("%")) // 100)


@dataclass(slots=True)
class Starts:
    """What is starting, and what this pass adds to it."""

    limit: int
    begun: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """Slot and nodes of everything that is starting or has its turn, by replica id or slot."""
    next_in: timedelta | None = None
    """When the first of them stops counting although nothing is heard of it."""
    has_refused: bool = False
    """Whether anything was told to wait in this pass."""
    _on_node: dict[str, int] = field(default_factory=dict)
    _over: tuple[str, tuple[str, ...]] | None = None
    """What everybody is told who waits for the fleet: thousands may, until another one begins."""

    def begin(self, key: str, slot: str, nodes: Iterable[str]) -> None:
        """Count a start; a second time under the same key changes nothing."""
        if key in self.begun:
            return
        if slot in self.begun:  # it was cleared for just this one
            for node in self.begun.pop(slot)[1]:
                self._on_node[node] -= 1
        self._over = None
        self.begun[key] = slot, tuple(nodes)
        for node in self.begun[key][1]:
            self._on_node[node] = self._on_node.get(node, 0) + 1

    def refuse(self, slot: str, nodes: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
        """Why a start on these nodes must wait, as one clause, and for which slots; None when it may begin.

        A slot whose last replica is stopping for it has its turn already, on the node where that is.
        """
        _, cleared = self.begun.get(slot, (slot, ()))
        others = (node for node in nodes if node not in cleared)
        full = next((node for node in others if self._on_node.get(node, 0) >= PER_NODE), None)
        is_over = len(self.begun) >= self.limit and slot not in self.begun
        if full is None and not is_over:
            return None
        self.has_refused = True
        if is_over:
            if self._over is None:
                starting = sorted({each for each, _ in self.begun.values()})
                words = _waits_for(len(starting), f"{self.limit} at once in the fleet")
                self._over = words, tuple(starting[:NAMED])
            return self._over
        starting = sorted({each for each, on in self.begun.values() if full in on})
        return _waits_for(len(starting), f"{PER_NODE} at once on {full}"), tuple(starting[:NAMED])


def starts_of(matched: Iterable[Held], models: Iterable[ModelSlots], limit: int) -> Starts:
    """What counts before this pass: replicas that are coming up, and slots that were cleared for a successor.

    One that has been starting for longer than its ready_timeout holds nothing up any more: its agent ends it, or it
    makes progress slowly, and then many more may not wait for it. What an unreachable node starts is unknown.
    """
    found = Starts(limit)
    ends = []
    for held in matched:
        if held.state not in _STARTING or held.match in {Match.UNREACHABLE, Match.FOREIGN}:
            continue
        entry = held.replica.entry
        left = entry.ready_timeout - held.replica.state_for
        if left > timedelta():
            found.begin(held.id, slot_name(entry.model, entry.ordinal), entry.placement.nodes)
            ends.append(left)
    for model in models:
        for slot in model.slots:
            if slot.is_wanted and not slot.is_frozen and _is_cleared(slot.held):
                found.begin(slot.name, slot.name, slot.held[0].replica.entry.placement.nodes)
    found.next_in = min(ends, default=None)
    return found


def _is_cleared(held: Sequence[Held]) -> bool:
    return bool(held) and all(each.match is Match.STOPPING for each in held)


def _waits_for(count: int, pace: str) -> str:
    return f"waits for {count} other start{'' if count == 1 else 's'} ({pace})"
