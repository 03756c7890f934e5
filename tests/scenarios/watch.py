"""What must hold at every instant of a rehearsal, judged from the truth of the nodes and not from what was observed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.domain.admission import own_gpus
from reconciler.domain.model_spec import Strategy
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import slot_name
from reconciler.planning.aim import importance, importance_rank
from tests.builders import FLEET
from tests.planning.lint import lint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from reconciler.controller.attempt import Pass
    from reconciler.domain.desired import Desired
    from reconciler.domain.intent import Intent
    from reconciler.fleet.simulated import SimulatedNodes
    from reconciler.fleet.simulated_replica import SimulatedReplica

UNSEEN_SECONDS = 25.0
"""What broke so recently may not be known to whoever decided: a lost answer takes 15 s, the next look a few more."""

_UNTOLD = frozenset({ReplicaState.PENDING, ReplicaState.STOPPING})
"""Steps on the way to what is told: it starts, or is gone."""


@dataclass
class Watch:
    """Collects every broken promise with the instant at which it was broken."""

    nodes: SimulatedNodes
    cut_off: Callable[[], Iterable[str]] = tuple
    """Nodes that some reconciler cannot reach now."""
    broken: list[str] = field(default_factory=list)
    aims: list[tuple[float, Desired]] = field(default_factory=list)
    """What was wanted since when."""
    _state: dict[tuple[str, str], ReplicaState] = field(default_factory=dict)
    _recovered_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """When one that had stopped answering served again: whoever tells it to stop may not know yet."""
    _serving: dict[str, int] = field(default_factory=dict)
    _unheard_at: dict[str, float] = field(default_factory=dict)
    """When a node was last planned with as one that does not answer."""
    _own_losses: list[tuple[float, str]] = field(default_factory=list)
    """When a replica of which model stopped serving by itself."""

    def check(self) -> None:
        """Fail with all that was broken so far."""
        assert not self.broken, "\n".join(self.broken)

    def passed(self, done: Pass, desired: Desired, intents: Sequence[Intent], now: float) -> None:
        """Note what is wanted, and hold the plan that was made for it against the linter."""
        self.wanted(desired, now)
        self._unheard_at |= {node.name: now for node in done.observed.unreachable}
        self.broken += [f"{now:.0f} s: {each}" for each in lint(desired, done.observed, done.decision, intents=intents)]

    def wanted(self, desired: Desired, now: float) -> None:
        """Note what is wanted from now on."""
        if not self.aims or self.aims[-1][1] is not desired:
            self.aims.append((now, desired))

    def changed(self, at: float, node: str, replica: SimulatedReplica) -> str | None:
        """Take note of a transition; the word for it where it is worth telling."""
        key = node, replica.id
        before, gone = self._state.get(key), replica.is_gone
        if gone and before is None:
            return None  # told already
        if gone:
            self._state.pop(key, None)
        else:
            self._state[key] = replica.state
        if before is ReplicaState.UNHEALTHY and replica.state is ReplicaState.READY:
            self._recovered_at[key] = at
        if before is ReplicaState.READY and replica.state is not ReplicaState.READY:
            if replica.stop is None:
                self._own_losses.append((at, replica.entry.model))
            elif at - self._recovered_at.get(key, -UNSEEN_SECONDS) >= UNSEEN_SECONDS:
                self._judge_stop(at, node, replica)
        if replica.state is ReplicaState.PENDING:
            self._judge_place(at, node, replica)
        if replica.stop is not None and replica.entry.fleet != FLEET:
            self.broken.append(f"{at:.0f} s: {replica.id} of fleet {replica.entry.fleet} was told to stop")
        if gone:
            return "is gone"
        return str(replica.state) if replica.state is not before and replica.state not in _UNTOLD else None

    def lost(self, at: float, name: str) -> None:
        """A machine went down: what it served, it serves no more."""
        for replica in self.nodes.by_name[name].replicas.values():
            if replica.state is ReplicaState.READY:
                self._own_losses.append((at, replica.entry.model))

    def serving(self, model: str) -> int:
        """Replicas of a model that answer now: of several nodes only those all of whose parts do."""
        return len({replica.id for replica in self._ready(model)})

    def serving_text(self, model: str) -> str:
        """`   qwen: 2 serve`, where that has changed."""
        count = self.serving(model)
        if self._serving.get(model, 0) == count:
            return ""
        self._serving[model] = count
        return f"   [{model}: {count} serve{'s' if count == 1 else ''}]"

    def _ready(self, model: str) -> Iterator[SimulatedReplica]:
        by_name = self.nodes.by_name
        for node in by_name.values():
            for replica in node.replicas.values():
                entry = replica.entry
                if node.is_up and entry.model == model and entry.fleet == FLEET:
                    parts = [by_name[name].replicas.get(entry.id) for name in entry.placement.nodes if name in by_name]
                    if all(part is not None and part.state is ReplicaState.READY for part in parts):
                        yield replica

    def _judge_stop(self, at: float, node: str, replica: SimulatedReplica) -> None:
        """Promise 3, from the truth: a replica that served was told to stop, and these are left."""
        floor = self._floor(at, replica.entry.model)
        recent = sum(model == replica.entry.model and at - when <= UNSEEN_SECONDS for when, model in self._own_losses)
        left = self.serving(replica.entry.model)
        if left + recent < floor and not self._may_be_taken(replica.entry.model):
            who = f"{replica.id} on {node} was told to stop"
            self.broken.append(f"{at:.0f} s: {who}, {left} are left to serve and {floor} must be")

    def _may_be_taken(self, model: str) -> bool:
        """Whether a more important model is below its minimum: no policy of its own protects a less important one.

        Whether that model had a right to it, and to just this, the linter says of the plan.
        """
        desired = self.aims[-1][1]
        mine = desired.model_by_name.get(model)
        rank = importance_rank(importance(mine))
        return any(
            importance_rank(importance(each)) < rank and self.serving(each.name) < each.replicas
            for each in desired.models
        )

    def _floor(self, at: float, model: str) -> int:
        """By the least demanding of the aims that were in force of late."""
        begun = [index for index, (since, _) in enumerate(self.aims) if since <= at - UNSEEN_SECONDS]
        floors = []
        for _, desired in self.aims[begun[-1] if begun else 0 :]:
            spec = desired.model_by_name.get(model)
            if spec is None or spec.replicas == 0:
                return 0
            policy = desired.policy(spec)
            away = policy.max_unavailable if policy.strategy is Strategy.SURGE else max(1, policy.max_unavailable)
            floors.append(spec.replicas - away - self._silent_slots(at, model, spec.replicas))
        return min(floors, default=0)

    def _silent_slots(self, at: float, model: str, count: int) -> int:
        """Wanted slots that do not serve and are held where somebody hears nothing: what is unknown gates nothing."""
        wanted = {slot_name(model, ordinal) for ordinal in range(count)}
        silent = {name for name, when in self._unheard_at.items() if at - when <= UNSEEN_SECONDS} | {*self.cut_off()}
        held = {
            slot_name(replica.entry.model, replica.entry.ordinal)
            for node in self.nodes.by_name.values()
            if not node.answers or node.name in silent
            for replica in node.replicas.values()
        }
        serving = {slot_name(replica.entry.model, replica.entry.ordinal) for replica in self._ready(model)}
        return len((wanted & held) - serving)

    def _judge_place(self, at: float, node: str, replica: SimulatedReplica) -> None:
        """Promise 4, from the truth: what was accepted never finds its GPUs held by another replica."""
        gpus = own_gpus(replica.entry, node)
        for uuid, holder in self.nodes.by_name[node].held_gpus(at):
            if uuid in gpus and holder != replica.id and holder in self.nodes.by_name[node].replicas:
                self.broken.append(f"{at:.0f} s: {replica.id} is placed on {uuid}, which {holder} still holds")
