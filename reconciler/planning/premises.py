"""What each action of a plan relies on, and whether that still holds.

An action is stale when a node that it touches no longer answers, when what it takes away is not there any more, when a
GPU that it will use is held by another, or when planning anew would do something else with its slot. What changes
elsewhere makes nothing stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.plan import Action, Reason
from reconciler.domain.plan_file import Premise, PremisedGpu

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.domain.observed import Observation, ReachableNode
    from reconciler.domain.placement import Placement
    from reconciler.domain.plan import Change, Plan

_BECAUSE = {
    Reason.MATCHES: "it is as desired already",
    Reason.STARTING: "it is starting already",
    Reason.STOPPING: "it is stopping already",
    Reason.SUSPENDED: "the model is suspended",
    Reason.UNREACHABLE: "its node does not answer",
    Reason.FAILED: "it failed",
    Reason.UNHEALTHY: "it does not answer",
}


@dataclass(frozen=True, slots=True)
class Stale:
    """One action that can no longer be taken as it was planned."""

    change: Change
    why: str
    """One clause."""


def premises(plan: Plan, observed: Observation) -> tuple[Premise, ...]:
    """One for each change that does something, in their order."""
    seen = _Seen(observed)
    return tuple(_premise(change, seen) for change in plan.acts)


def stale(plan: Plan, relied_on: Sequence[Premise], anew: Plan, observed: Observation) -> tuple[Stale, ...]:
    """The actions of `plan` that no longer hold; `anew` is the plan that would be made now of the same tree."""
    seen = _Seen(observed)
    now = {change.replica: change for change in anew.changes}
    premise_of = {premise.replica: premise for premise in relied_on}
    found = []
    for change in plan.acts:
        premise = premise_of.get(change.replica)
        reasons = [] if premise is None else list(_broken(premise, seen))
        why = "; ".join(reasons) or _otherwise(change, now.get(change.replica))
        if why:
            found.append(Stale(change, why))
    return tuple(found)


class _Seen:
    """One observation, indexed."""

    def __init__(self, observed: Observation) -> None:
        self.heard = {node.name: node for node in observed.reachable}
        self.lost = {node.name: node.reason for node in observed.unreachable}
        self.replicas = {replica.id: (node.name, replica) for node, replica in observed.replicas()}
        self._holders: dict[str, Mapping[str, str]] = {}

    def holder(self, node: str, uuid: str) -> str | None:
        """Who holds a GPU, as a plan file names them."""
        if node not in self._holders:
            heard = self.heard.get(node)
            self._holders[node] = {} if heard is None else _holders(heard)
        return self._holders[node].get(uuid)


def _holders(node: ReachableNode) -> dict[str, str]:
    found = {uuid: f"process {process.pid}" for process in node.foreign for uuid in process.gpus}
    for replica in node.replicas:
        found.update(dict.fromkeys(replica.entry.placement.gpu_uuids, replica.id))
    return found


def _premise(change: Change, seen: _Seen) -> Premise:
    places = [place for place in (change.before, change.after) if place is not None]
    return Premise(
        replica=change.replica,
        nodes=tuple(dict.fromkeys(node for place in places for node in place.nodes)),
        replicas=() if change.before is None else (change.before.id,),
        gpus=() if change.after is None else tuple(_gpus(change.after, seen)),
    )


def _gpus(place: Placement, seen: _Seen) -> Iterator[PremisedGpu]:
    for shard in place.shards:
        for gpu in shard.gpus:
            holder = seen.holder(shard.node, gpu.uuid)
            yield PremisedGpu(node=shard.node, uuid=gpu.uuid, index=gpu.index, holder=holder)


def _broken(premise: Premise, seen: _Seen) -> Iterator[str]:
    """What no longer holds, one clause each."""
    silent = [node for node in premise.nodes if node not in seen.heard]
    for node in silent:
        yield f"{node} does not answer ({seen.lost.get(node, 'it is not in the inventory')})"
    if silent:
        return
    for id_ in premise.replicas:
        if id_ not in seen.replicas:
            yield f"{id_} is no longer there"
    for gpu in premise.gpus:
        reported = {each.uuid: each for each in seen.heard[gpu.node].gpus}.get(gpu.uuid)
        holder = seen.holder(gpu.node, gpu.uuid)
        where = f"GPU {gpu.index} of {gpu.node}"
        if reported is None:
            yield f"{where} is no longer reported"
        elif not reported.answers:
            yield f"{where} does not answer its driver"
        elif holder is not None and holder != gpu.holder:
            yield f"{where} is held by {holder}, and was {'free' if gpu.holder is None else f'held by {gpu.holder}'}"


def _otherwise(change: Change, anew: Change | None) -> str | None:
    """What planning anew would do instead; None where it would do the same."""
    if anew is None:
        return "its slot is gone"
    if _essence(anew) == _essence(change):
        return None
    if anew.action is Action.NONE:
        message = f": {anew.message}" if anew.message else ""
        return f"{_BECAUSE.get(anew.reason, f'nothing would be done now ({anew.reason})')}{message}"
    before, after = described(change), described(anew)
    if before != after:
        return f"it would now be: {after}"
    if anew.reason is not change.reason:
        return f"the reason is another now: {anew.reason}, and was {change.reason}"
    if anew.fields != change.fields:
        return "other fields change now"
    return "another launch is wanted now, as when a restart was asked for meanwhile"


def _essence(change: Change) -> object:
    """What a person approved of one slot; what it waits on may have come about meanwhile."""
    places = tuple(None if place is None else place.id for place in (change.before, change.after))
    return change.action, change.strategy, change.reason, change.fields, places


def described(change: Change) -> str:
    """`replace in place, gpu-07 [0,1] → gpu-03 [4,5]` in the words of a premise: nodes and indices."""
    how = f" {change.strategy.replace('_', ' ')}" if change.strategy is not None else ""
    places = [_place(place) for place in (change.before, change.after) if place is not None]
    return f"{change.action}{how}, {' → '.join(places)}" if places else f"{change.action}{how}, without a place"


def _place(place: Placement) -> str:
    return " + ".join(
        f"{shard.node} [{','.join(str(gpu.index) for gpu in shard.gpus)}]" if shard.gpus else f"{shard.node} cpu"
        for shard in place.shards
    )
