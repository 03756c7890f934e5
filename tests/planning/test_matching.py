"""Every observed replica gets exactly one class: the first rule that holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ReplicaState
from reconciler.domain.plan import Reason
from reconciler.planning.aim import aims_of
from reconciler.planning.matching import RULES, Held, Match, match
from tests.builders import NOON, a_desired, a_model, a_node, a_replica, an_intent, heard, lost, observation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.domain.intent import Intent

MODEL = a_model(replicas=1, restart="t1")
OUTDATED = a_model(replicas=1, restart="t1", context=1024)
NODE = a_node("n1")


def matched(
    ordinal: int = 0, *, of: Any = MODEL, silent: bool = False, intents: Sequence[Intent] = (), **fields: Any
) -> Held:
    """The class of one replica of a fleet that wants one of MODEL."""
    seen = a_replica(of, ordinal, "n1", [0], **fields)
    desired = a_desired([MODEL], [NODE])
    observed = observation(lost(NODE, seen) if silent else heard(NODE, seen))
    (held,) = match(desired, observed, aims_of(desired, observed, intents, NOON, None))
    return held


FOREIGN: dict[str, Any] = {"entry": {"fleet": "lab"}}
FAILED: dict[str, Any] = {"state": ReplicaState.FAILED}
DRAINING: dict[str, Any] = {"state": ReplicaState.DRAINING}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (matched(), Match.MATCHING),
        (matched(state=ReplicaState.UNHEALTHY), Match.MATCHING),
        (matched(state=ReplicaState.PENDING), Match.MATCHING),
        (matched(1), Match.SURPLUS),
        (matched(of=a_model("gone")), Match.SURPLUS),
        (matched(of=OUTDATED), Match.OUTDATED),
        (matched(1, of=OUTDATED), Match.OUTDATED),
        (matched(**DRAINING), Match.STOPPING),
        (matched(1, of=OUTDATED, state=ReplicaState.STOPPING), Match.STOPPING),
        (matched(**FAILED), Match.FAILED),
        (matched(1, of=OUTDATED, **FAILED), Match.FAILED),
        (matched(**FOREIGN), Match.FOREIGN),
        (matched(**FOREIGN, **FAILED), Match.FOREIGN),
        (matched(silent=True), Match.UNREACHABLE),
        (matched(1, of=OUTDATED, silent=True, **FOREIGN, **DRAINING), Match.UNREACHABLE),
    ],
)
def test_the_first_rule_that_holds_gives_the_class(found: Held, expected: Match) -> None:
    assert found.match is expected


def test_every_class_has_one_rule_and_their_order_is_that_of_the_classes() -> None:
    assert [found for _, found in RULES] == list(Match)


def test_the_reported_digest_is_compared_and_never_computed_again() -> None:
    """A newer tool may declare more fields of an unchanged model; that restarts nothing (promise 8)."""
    now = matched().replica
    older = now.entry.model_copy(update={"declaration": now.entry.declaration.model_copy(update={"dtype": "auto"})})
    desired = a_desired([MODEL], [NODE])
    observed = observation(heard(NODE, now.model_copy(update={"entry": older})))
    (held,) = match(desired, observed, aims_of(desired, observed, (), NOON, None))
    assert older.declaration.launch_digest() != older.digest
    assert held.match is Match.MATCHING


RESTART = an_intent(IntentKind.RESTART, "m", id="i1")


@pytest.mark.parametrize(
    ("intents", "held", "reason"),
    [
        ((), None, None),
        ((), "i1", None),  # nothing is newer than what it has
        ((RESTART,), "i1", None),
        ((RESTART,), None, Reason.RESTART),
        ((RESTART,), "i0", Reason.RESTART),
        ((RESTART, an_intent(IntentKind.RESTART, None, id="i2")), "i1", Reason.RESTART),
        ((RESTART, an_intent(IntentKind.RESTART, "another", id="i2")), "i1", None),
        ((RESTART, an_intent(IntentKind.RETRY, "m", id="i2")), "i1", None),
        ((an_intent(IntentKind.RESTART, "m", id="i1", expires_at=NOON),), None, None),
        ((an_intent(IntentKind.RESTART, "m", id="i1", expires_at=NOON + timedelta(seconds=1)),), None, Reason.RESTART),
        # An expired one asks for nothing, and the one before it does not come back to life.
        ((RESTART, an_intent(IntentKind.RESTART, "m", id="i2", expires_at=NOON)), "i2", None),
    ],
)
def test_a_replica_that_lacks_the_newest_restart_intent_is_outdated(
    intents: tuple[Intent, ...], held: str | None, reason: Reason | None
) -> None:
    mismatch = matched(entry={"intent": held}, intents=intents).mismatch
    assert (mismatch.reason if mismatch else None) is reason


@pytest.mark.parametrize(
    ("model", "node", "reason"),
    [
        (MODEL, NODE, None),
        (MODEL.model_copy(update={"context": 9}), NODE, Reason.CHANGED),
        (MODEL.model_copy(update={"restart": None}), NODE, Reason.RESTART),
        (MODEL, replace(NODE, drain=True), Reason.MOVED),
        (MODEL.model_copy(update={"context": 9}), replace(NODE, drain=True), Reason.CHANGED),
    ],
)
def test_the_weightiest_difference_is_the_reason(model: Any, node: Any, reason: Reason | None) -> None:
    desired = a_desired([model], [node])
    observed = observation(heard(NODE, a_replica(MODEL, 0, "n1", [0])))
    (held,) = match(desired, observed, aims_of(desired, observed, (), NOON, None))
    assert (held.mismatch.reason if held.mismatch else None) is reason
