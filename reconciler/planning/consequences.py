"""What the changes of one model do to those who use it, and how they are undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine, Strategy
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.domain.declaration import Declaration
    from reconciler.domain.observed import ObservedReplica
    from reconciler.domain.plan import Change
    from reconciler.planning.aim import Aim

_BROKEN = frozenset({Reason.DIED, Reason.FAILED})
_SPLITS = frozenset({Engine.VLLM, Engine.SGLANG, Engine.TRTLLM})
"""Engines that split each layer over GPUs; llama.cpp spreads whole layers."""


def is_rolled_out(change: Change) -> bool:
    """Whether it replaces what runs, where a repair launches again what broke."""
    return change.action is Action.REPLACE and change.reason not in _BROKEN


def serves(change: Change, running: Mapping[str, ObservedReplica]) -> bool:
    """Whether what goes serves now; `running` has the replicas of nodes that answer, by id."""
    found = running.get(change.before.id) if change.before is not None else None
    return found is not None and found.state is ReplicaState.READY


def serving(aim: Aim, changes: Sequence[Change], running: Mapping[str, ObservedReplica]) -> tuple[int, int]:
    """Replicas that serve now, and the fewest that will: as many may be missing as the policy allows (promise 3)."""
    ids = {change.before.id for change in changes if change.before is not None}
    ready = sum(1 for id_ in ids if id_ in running and running[id_].state is ReplicaState.READY)
    rolled = [change for change in changes if is_rolled_out(change) and change.after is not None]
    may_miss = aim.policy.max_unavailable if rolled else 0
    if any(change.strategy is Strategy.IN_PLACE and serves(change, running) for change in rolled):
        may_miss = max(1, may_miss)
    return ready, max(0, min(ready, aim.count - may_miss))


def width(declaration: Declaration) -> int | None:
    """GPUs that one layer is split over; None for an engine that splits none, on CPUs, or where it is not whole."""
    gpus = declaration.gpus * declaration.nodes
    parts = declaration.pipeline_parallel * declaration.data_parallel
    if declaration.engine not in _SPLITS or declaration.gpu_class is None or gpus % parts:
        return None
    return gpus // parts


def way_back(changes: Sequence[Change]) -> str | None:
    """How to undo what a commit asks for, as one clause; None for a repair, and for what cannot begin."""
    acts = [change for change in changes if change.action is Action.DELETE or change.after is not None]
    going = [change for change in acts if change.action is Action.REPLACE and change.reason is Reason.CHANGED]
    if any(change.strategy is Strategy.IN_PLACE for change in going):
        return "revert; what has stopped by then loads again"
    if going:
        last = max(going, key=lambda change: int(change.replica.rpartition("/")[2])).replica
        slot = last[last.rindex("/") :]
        return f"revert; until the successor of {slot} is ready the old {slot} still serves"
    if any(change.reason is Reason.REMOVED for change in acts):
        return "put the file back; it loads again"
    if any(change.reason is Reason.SCALED_DOWN for change in acts):
        return "raise scaling.min again; it loads again"
    return None
