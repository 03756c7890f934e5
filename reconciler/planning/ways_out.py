"""Changes that would unblock a model, each planned before it is told: whether it then starts, and at whose cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reconciler.domain.base import format_duration
from reconciler.domain.plan import Action, Reason
from reconciler.domain.why import Unblock
from reconciler.planning.aim import importance, importance_rank
from reconciler.planning.planner import plan
from reconciler.planning.scaling import may_scale
from reconciler.planning.unblocking import candidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.desired import Desired
    from reconciler.domain.plan import Blocked, Change, Plan
    from reconciler.planning.aim import Aim
    from reconciler.planning.kept import Kept
    from reconciler.planning.unblocking import Candidate, Case

SHOWN = 3
"""Ways out that are told: more do not help at night."""

TRIED = 16
TRIED_NODES = 100_000
"""Changes that are planned at most: a person waits, and a trial takes a tenth of a second for 10,000 nodes. There 10
are planned, and never fewer than 6."""

_NONE = Action.NONE
_COMES = frozenset({Action.CREATE, Action.REPLACE})
_STUCK = frozenset({Reason.FAILED, Reason.DIED, Reason.SUSPENDED, Reason.UNREACHABLE})


class Gate(Protocol):
    """Whether a tree with one model changed would be merged; the gate stands above planning."""

    def refusal(self, desired: Desired, model: str) -> str | None:
        """Why not, as one clause; None where it would."""
        ...


class NoGate:
    """Takes everything."""

    def refusal(self, desired: Desired, model: str) -> None:
        """None."""


@dataclass(frozen=True, slots=True)
class _Answer:
    candidate: Candidate
    told: Unblock
    refused: bool = False
    """By the gate, though it would help."""


def ways_out(
    case: Case, aim: Aim, now: Plan, blocked: Sequence[Blocked], gate: Gate, kept: Kept
) -> tuple[Unblock, ...]:
    """Those that work, up to SHOWN, the smallest first; `kept` is what was worked out for the plan as it is `now`.

    Where there are fewer, what people think of first and does not work stands between them, with the reason.
    """
    mine = [change for change in now.changes if change.model == aim.name]
    placeless = [change for change in mine if is_placeless(change)]
    stuck = tuple(change.replica for change in placeless or [change for change in mine if is_stuck(change)])
    standing = {(each.model, each.rule) for each in now.blocked}
    moving = _moving(case.desired, aim, now)
    tries = min(TRIED, max(6, TRIED_NODES // max(1, len(case.desired.nodes))))
    answers: list[_Answer] = []
    helped: set[str] = set()
    for each in candidates(case, aim.name, aim.demands, blocked):
        if each.subject in helped:
            continue  # a smaller change of the same thing was enough
        if len(answers) >= tries or len(helped) >= SHOWN:
            break
        told = _tried(each, aim.name, stuck, standing, moving, kept)
        refusal = gate.refusal(each.case.desired, each.edited) if told.works and each.edited is not None else None
        if refusal is not None:
            told = Unblock(change=each.words, works=False, outcome=f"would be refused: {refusal}")
        answers.append(_Answer(each, told, refused=refusal is not None))
        if told.works:
            helped.add(each.subject)
    return _chosen(answers, helped)


def is_stuck(change: Change) -> bool:
    """Whether a slot waits for something that no time alone brings."""
    if change.action is Action.NONE:
        return change.reason in _STUCK
    return is_placeless(change) or (change.schedule.kind == "waiting" and change.action is Action.DELETE)


def is_placeless(change: Change) -> bool:
    """Whether no node has room for what is to come."""
    return change.schedule.kind == "waiting" and change.after is None and change.action in _COMES


def _chosen(answers: Sequence[_Answer], helped: set[str]) -> tuple[Unblock, ...]:
    """All that work; up to SHOWN also others, one of each kind, first what the gate would refuse."""
    vain: dict[str, _Answer] = {}
    for answer in sorted(answers, key=lambda each: not each.refused):
        if answer.candidate.subject not in helped:
            vain.setdefault(answer.candidate.subject, answer)
    left = SHOWN - len(helped)
    told = {id(answer) for answer in list(vain.values())[: max(0, left)]}
    return tuple(answer.told for answer in answers if answer.told.works or id(answer) in told)


def _moving(desired: Desired, aim: Aim, now: Plan) -> frozenset[str]:
    """The models that a small change may move: all that are not at rest, and those that they may take room from.

    The others are as desired and stay where they are, whatever becomes of these, so that a trial leaves them out.
    """
    restless = {each.model for each in now.changes if each.reason is not Reason.MATCHES or each.action is not _NONE}
    restless |= {each.model for each in now.blocked if each.model is not None}
    restless.add(aim.name)
    rank = {spec.name: importance_rank(importance(spec)) for spec in desired.models}
    most = min((rank[name] for name in restless if name in rank), default=0)
    taken = {spec.name for spec in desired.models if rank[spec.name] > most or may_scale(spec)}
    return frozenset(restless | taken)


def _tried(
    each: Candidate,
    model: str,
    stuck: Sequence[str],
    standing: set[tuple[str | None, str]],
    moving: frozenset[str],
    kept: Kept,
) -> Unblock:
    """Plan it, and look whether what is stuck moves and nobody else is stuck for it."""
    case, only = each.case, moving if each.edited is None else moving | {each.edited}
    then = plan(case.desired, case.observed, case.intents, case.now, only=only, kept=kept).plan
    changes = {change.replica: change for change in then.changes}
    left = [changes[slot] for slot in stuck if slot in changes and is_stuck(changes[slot])]
    if left:
        mine = next((block.message.partition(";")[0] for block in then.blocked if block.model == model), None)
        return Unblock(change=each.words, works=False, outcome=mine or f"{left[0].replica} would still wait")
    worse = next((block for block in then.blocked if (block.model, block.rule) not in standing), None)
    if worse is not None:
        return Unblock(change=each.words, works=False, outcome=f"then {worse.message}")
    outcome = _outcome([changes[slot] for slot in stuck if slot in changes], each.case.desired)
    return Unblock(change=each.words, works=True, outcome=f"{outcome}{each.provided}")


def _outcome(changes: Sequence[Change], desired: Desired) -> str:
    """When it starts; where some wait, what the last of them waits on."""
    acting = [change for change in changes if change.action is not Action.NONE]
    waiting = [change for change in acting if change.schedule.kind == "waiting"]
    if not acting:
        return "as desired then"
    verb = "stops" if all(change.action is Action.DELETE for change in acting) else "starts"
    if not waiting:
        return f"{verb} at once"
    last = f"{waiting[-1].schedule.message or 'later'}{_drain(waiting[-1], desired)}"
    return f"{verb} {last}" if len(waiting) == len(acting) else f"{verb} at once, the last {last}"


def _drain(change: Change, desired: Desired) -> str:
    """How long what is in the way may take to drain."""
    models = {slot.rpartition("/")[0] for slot in change.schedule.on} - {change.model}
    drains = [
        desired.policy(desired.model_by_name[name]).drain_timeout for name in models if name in desired.model_by_name
    ]
    longest = max(drains, default=None)
    return f" (drain up to {format_duration(longest)})" if longest else ""
