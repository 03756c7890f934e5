"""Whether an assignment is taken: fencing, completeness, and no GPU or id given twice. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.domain.assignment import Assignment, Refusal, RunEntry, StopEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.claims import Claims


@dataclass(frozen=True, slots=True)
class Held:
    """A replica the agent holds, as far as an assignment can disagree with it."""

    entry: RunEntry
    has_process: bool
    stopping: bool


def refuse(
    assignment: Assignment,
    *,
    node: str,
    claims: Claims,
    now: float,
    accepted: tuple[int, int],
    before: Assignment | None,
    held: Mapping[str, Held],
) -> Refusal | None:
    """Why this assignment is not taken; None when it is. Rules in order, first wins.

    `accepted` and `before` are the (epoch, generation) and the body of the newest assignment taken.
    """
    if assignment.node != node:
        return Refusal(reason="wrong-node", message=f"this is {node}, and the assignment is for {assignment.node}")
    if not claims.permits(assignment.holder, assignment.epoch, now):
        return _unclaimed(assignment, claims, now)
    mark = (assignment.epoch, assignment.generation)
    if mark == accepted and assignment == before:
        return None
    if mark <= accepted:
        return Refusal(
            reason="stale",
            message=f"epoch {mark[0]}, generation {mark[1]} is not above what was taken last: "
            f"epoch {accepted[0]}, generation {accepted[1]}",
            holder=claims.holder(now),
        )
    return _omits(assignment, held) or _changed_body(assignment, held) or _overlap(assignment, held)


def _unclaimed(assignment: Assignment, claims: Claims, now: float) -> Refusal:
    holder = claims.holder(now)
    others = f"; held by `{holder.command}` of {holder.user} on {holder.machine}" if holder else "; nobody holds one"
    return Refusal(
        reason="stale",
        message=f"no live claim with epoch {assignment.epoch} by {assignment.holder} (newest: {claims.epoch}){others}",
        holder=holder,
        expires_in_seconds=claims.expires_in(now) if holder else None,
    )


def _omits(assignment: Assignment, held: Mapping[str, Held]) -> Refusal | None:
    """Nothing is ever stopped by omission. Replicas of another fleet are not this one's to name."""
    ours = (replica_id for replica_id, each in held.items() if each.entry.fleet == assignment.fleet)
    missing = tuple(sorted(set(ours) - assignment.named()))
    if not missing:
        return None
    return Refusal(
        reason="omits",
        message=f"the assignment leaves out {', '.join(missing)}: name every replica, to run it or to stop it",
        missing=missing,
    )


def _changed_body(assignment: Assignment, held: Mapping[str, Held]) -> Refusal | None:
    """An id stands for one body; and a stop, once asked for, is finished."""
    seen: set[str] = set()
    for entry in assignment.entries:
        if not isinstance(entry, RunEntry | StopEntry):
            continue
        if entry.id in seen:
            return Refusal(reason="conflict", message=f"{entry.id} is named twice")
        seen.add(entry.id)
        holds = held.get(entry.id)
        if isinstance(entry, StopEntry) or holds is None:
            continue
        if holds.stopping:
            return Refusal(reason="conflict", message=f"{entry.id} is being stopped; it can run again once it is gone")
        if _body(entry) != _body(holds.entry):
            return Refusal(reason="conflict", message=f"{entry.id} is held with another body than the one sent")
    return None


def _body(entry: RunEntry) -> RunEntry:
    """The entry without the fields that may change while a replica lives."""
    declared = entry.declaration
    if declared.loads_adapters:
        declared = declared.model_copy(update={"adapters": ()})
    return entry.model_copy(update={"attempt": 0, "retry": None, "ready_timeout": None, "declaration": declared})


def _overlap(assignment: Assignment, held: Mapping[str, Held]) -> Refusal | None:
    """The last guard against two engines on one GPU: whatever a reconciler believes, the agent knows who is alive."""
    runs = [entry for entry in assignment.entries if isinstance(entry, RunEntry)]
    stops = {entry.id for entry in assignment.entries if isinstance(entry, StopEntry)}
    owner_by_gpu: dict[str, str] = {}
    for replica_id, each in held.items():
        if each.has_process and not each.stopping and replica_id not in stops:
            owner_by_gpu |= dict.fromkeys(own_gpus(each.entry, assignment.node), replica_id)
    for entry in runs:
        for gpu in sorted(own_gpus(entry, assignment.node)):
            owner = owner_by_gpu.setdefault(gpu, entry.id)
            if owner != entry.id:
                return Refusal(reason="conflict", message=f"{entry.id} is placed on {gpu}, which {owner} holds")
    return None


def own_gpus(entry: RunEntry, node: str) -> frozenset[str]:
    """UUIDs of the GPUs of a replica's shard on this node."""
    return frozenset(gpu.uuid for shard in entry.placement.shards if shard.node == node for gpu in shard.gpus)
