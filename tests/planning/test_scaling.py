"""How many replicas are wanted of what scales: woken, idle, unknown, and between two bounds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.intent import IntentKind
from reconciler.domain.observed import ReplicaState
from reconciler.planning.scaling import Scale, Seen, scale
from tests.builders import NOON, a_desired, a_model, a_replica, an_intent

if TYPE_CHECKING:
    from collections.abc import Mapping

MINUTE = timedelta(minutes=1)
READY = ReplicaState.READY
ON_DEMAND: dict[str, Any] = {"min": 0, "max": 3, "idle_timeout": "10m"}
SCALED: dict[str, Any] = {"min": 1, "max": 3, "target": 8}


def scaled(scaling: Mapping[str, Any], *seen: Seen, woken_for: timedelta | None = None) -> Scale:
    model = a_model(scaling=scaling)
    wake = an_intent(IntentKind.WAKE, "m", expires_at=NOON + woken_for) if woken_for is not None else None
    return scale(a_desired([model]), model, seen, wake, NOON)


def one(ordinal: int = 0, state: ReplicaState = READY, *, is_heard: bool = True, **fields: Any) -> Seen:
    return Seen(a_replica(a_model(), ordinal, "n1", [ordinal], state, **fields), is_heard)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (scaled(ON_DEMAND), Scale(0)),
        (scaled(ON_DEMAND, woken_for=3 * MINUTE), Scale(1, 3 * MINUTE)),
        (scaled(ON_DEMAND, one(idle_for=4 * MINUTE)), Scale(1, 6 * MINUTE)),
        (scaled(ON_DEMAND, one(idle_for=10 * MINUTE)), Scale(0)),
        (scaled(ON_DEMAND, one(idle_for=60 * MINUTE, state_for=2 * MINUTE)), Scale(1, 8 * MINUTE)),
        (scaled(ON_DEMAND, one(idle_for=60 * MINUTE), woken_for=MINUTE), Scale(1, MINUTE)),
        (scaled(ON_DEMAND, one()), Scale(1)),  # nobody knows whether it is idle
        (scaled(ON_DEMAND, one(idle_for=60 * MINUTE, is_heard=False)), Scale(1)),
        (scaled(ON_DEMAND, one(state=ReplicaState.STARTING)), Scale(1)),
        (scaled(ON_DEMAND, one(state=ReplicaState.DRAINING)), Scale(0)),
        (scaled(ON_DEMAND, one(state=ReplicaState.FAILED, state_for=MINUTE)), Scale(1, 9 * MINUTE)),
        (scaled(ON_DEMAND, one(0), one(1), one(2)), Scale(1)),  # without a target one is enough
        (scaled(ON_DEMAND | {"target": 8}, one(0), one(1)), Scale(2)),
        (scaled({"min": 0, "max": 0}, one()), Scale(0)),
        (scaled(SCALED), Scale(1)),
        (scaled(SCALED, one(0), one(1, idle_for=60 * MINUTE)), Scale(2)),  # its scaler takes it back, not idleness
        (scaled(SCALED, one(5)), Scale(3)),
        (scaled({"min": 1, "max": 3}, one(0), one(1)), Scale(1)),
        (scaled({"min": 0, "max": 1}, one(idle_for=14 * MINUTE)), Scale(1, MINUTE)),
    ],
)
def test_how_many_are_wanted_and_for_how_long(found: Scale, wanted: Scale) -> None:
    assert found == wanted
