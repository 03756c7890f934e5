"""Why a model is not as desired: the constraint, what is in the way node by node, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.external import ExternalVerdict
from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Action, Reason
from reconciler.domain.why import Why, WhySlot
from reconciler.placement.refusal import refuse
from reconciler.planning.aim import aims_of
from reconciler.planning.brake import given_up
from reconciler.planning.draft import spoken
from reconciler.planning.forecast import Forecast
from reconciler.planning.kept import Kept
from reconciler.planning.obstacles import not_heard, obstacles
from reconciler.planning.planner import plan
from reconciler.planning.unblocking import LACKS_ROOM, NOT_HEARD
from reconciler.planning.used_up import used_up
from reconciler.planning.ways_out import is_placeless, is_stuck, ways_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.external import ExternalAnswer
    from reconciler.domain.intent import Intent
    from reconciler.domain.plan import Blocked, Change, Decision
    from reconciler.placement.room import Room
    from reconciler.planning.aim import Aim
    from reconciler.planning.unblocking import Case
    from reconciler.planning.ways_out import Gate

_NO_ROOM = "inventory/overcommitted"
_QUIET = {
    Reason.STARTING: "is starting",
    Reason.STOPPING: "is stopping",
    Reason.UNHEALTHY: "does not answer; its agent cures it or ends it",
    Reason.SUSPENDED: "is left alone: the model is suspended",
    Reason.UNREACHABLE: "is unknown",
    Reason.FAILED: "failed",
    Reason.DIED: "died too often to be launched at once again",
}
_VERBS = {Action.CREATE: "start", Action.REPLACE: "be replaced", Action.DELETE: "stop", Action.UPDATE: "be updated"}


def why(case: Case, model: str, gate: Gate, commit: str | None = None, external: ExternalAnswer | None = None) -> Why:
    """Explain one model of the tree, or one that still runs; pure, as planning is.

    `external` is what it answered, where somebody else serves it.
    """
    kept = Kept()
    decision = plan(case.desired, case.observed, case.intents, case.now, kept=kept)
    aims = aims_of(case.desired, case.observed, case.intents, case.now, None, kept)
    aim = aims[model]
    changes = [change for change in decision.plan.changes if change.model == model]
    open_ = [change for change in changes if change.action is not Action.NONE or change.reason is not Reason.MATCHES]
    blocked = [each for each in decision.plan.blocked if each.model == model or (each.model is None and open_)]
    rule = next((each for each in blocked if each.rule in {*LACKS_ROOM, NOT_HEARD}), next(iter(blocked), None))
    wanted, ready = decision.counts.get(model, aim.count), _ready(case, changes)
    room = None
    if rule is not None and rule.rule in {*LACKS_ROOM, NOT_HEARD}:
        closed = given_up(case.observed, case.intents, case.now)
        room = Forecast(case.desired, case.observed, aims, closed, kept).now
    nodes, more_nodes = ((), 0) if room is None else obstacles(room, case.observed, aim.demands, case.now)
    held_up = rule is not None or any(is_stuck(change) for change in open_)
    return Why(
        commit=commit,
        model=model,
        desired=wanted,
        ready=ready,
        as_desired=not open_ and not blocked and (external is None or external.is_ready),
        rule=None if rule is None else rule.rule,
        message=_message(aim, wanted, ready, open_, rule, _shortage(case, aim, rule, room)) + _elsewhere(external),
        hint=_external_hint(aim, external) if rule is None else rule.hint,
        slots=tuple(WhySlot(replica=change.replica, message=_slot_text(change)) for change in open_),
        nodes=nodes,
        more_nodes=more_nodes,
        unblock=ways_out(case, aim, decision.plan, blocked, gate, kept) if held_up else (),
        intents=_said(case, aim, decision),
    )


def _said(case: Case, aim: Aim, decision: Decision) -> tuple[Intent, ...]:
    """What people have said about the model and is not done.

    Of one whose file is gone, also which removals they have approved.
    """
    used = used_up(case.desired, case.observed, case.intents, decision, case.now)
    ours = [each for each in case.intents if each.is_live(case.now) and each not in used]
    removal = aim.spec is None
    about = [each for each in ours if each.model == aim.name or (removal and each.kind is IntentKind.APPROVE)]
    return tuple(sorted(about, key=lambda each: (each.created_at, each.id)))


def _ready(case: Case, changes: Sequence[Change]) -> int:
    held = {change.before.id for change in changes if change.before is not None}
    replicas = {replica.id: replica for _, replica in case.observed.replicas() if replica.id in held}
    return sum(1 for replica in replicas.values() if replica.state is ReplicaState.READY)


def _message(
    aim: Aim, wanted: int, ready: int, open_: Sequence[Change], rule: Blocked | None, shortage: str | None
) -> str:
    """`qwen-32b wants 2 replicas, has 1. /1 waits: no node has 2 h100-80gb free`."""
    if aim.spec is not None and aim.spec.external is not None and not open_:
        return f"{aim.name} is served by somebody else at {aim.spec.external.url}; nothing is launched for it"
    if not wanted and not open_:
        return f"{aim.name} wants no replica, and none runs"
    replicas = "no replica" if wanted == 0 else "1 replica" if wanted == 1 else f"{wanted} replicas"
    counts = f"{aim.name} wants {replicas}, has {ready or 'none'}"
    waiting = [change.replica for change in open_ if is_placeless(change)]
    if shortage is not None:
        return f"{counts}. {spoken(waiting, aim.name)} {'waits' if len(waiting) == 1 else 'wait'}: {shortage}"
    if rule is not None:
        return f"{counts}. {rule.message}"
    if not open_:
        return f"{counts}: as desired"
    return f"{counts}. {spoken([open_[0].replica], aim.name)} {_slot_text(open_[0])}"


def _elsewhere(external: ExternalAnswer | None) -> str:
    """What the one who serves it says."""
    if external is None:
        return ""
    return f". It {'is ready' if external.is_ready else 'waits'}: {external.message}"


def _external_hint(aim: Aim, external: ExternalAnswer | None) -> str | None:
    """What to do about an external model that does not answer as it should."""
    declared = None if aim.spec is None else aim.spec.external
    if external is None or declared is None:
        return None
    variable = declared.api_key_env
    match external.verdict:
        case ExternalVerdict.REACHABLE:
            return None
        case ExternalVerdict.UNREACHABLE:
            return "see that it runs, and that external.url is where it answers"
        case ExternalVerdict.WRONG_NAME:
            return "write the name that it has there in external.model, or have it served"
        case ExternalVerdict.KEY_REFUSED if variable is None:
            return "write the name of the variable that holds the key in external.api_key_env, and set it"
        case ExternalVerdict.KEY_REFUSED:
            return f"put a key that it takes into {variable}"
        case ExternalVerdict.KEY_MISSING:
            return f"set {variable} to the key where reconciler runs"


def _shortage(case: Case, aim: Aim, rule: Blocked | None, room: Room | None) -> str | None:
    """What is short, without the nodes that are told below; None where the rule says more than that."""
    if rule is None or room is None:
        return None
    if rule.rule == NOT_HEARD:
        silent = not_heard(room, case.observed, aim.demands)
        return None if silent is None else silent.head
    is_plain = rule.rule == _NO_ROOM and "in place" not in rule.message
    return refuse(room, aim.demands).shortage if is_plain else None


def _slot_text(change: Change) -> str:
    detail = f": {change.message}" if change.message else ""
    if change.action is Action.NONE:
        waits = f" ({change.schedule.message})" if change.schedule.message else ""
        return f"{_QUIET.get(change.reason, change.reason)}{waits}{detail}"
    verb = _VERBS[change.action]
    if change.schedule.kind == "waiting":
        return f"waits to {verb}: {change.schedule.message or 'others come first'}"
    return f"is to {verb} at the next apply{detail}"
