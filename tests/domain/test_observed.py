"""What an agent may say: numbers at the edge of their types are refused where they are read, so that no sum breaks."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from reconciler.domain.observed import FailedLaunch, FailedStarts, LoadTime, ObservedReplica
from tests.builders import a_model, a_replica

REPLICA = a_replica(a_model(), 0, "n1", [0]).model_dump(mode="json")


@pytest.mark.parametrize(
    "lie",
    [
        {"state_for": "P999999999DT86399.999999S"},
        {"state_for": "-P999999999D"},
        {"idle_for": "P999999999D"},
        {"since": "9999-12-31T23:59:59-12:00"},
        {"since": "0001-01-01T00:00:00+14:00"},
        {"load_seconds": 1e300},
        {"entry": REPLICA["entry"] | {"id": "m/99999999999@1a2b3c4d", "ordinal": 99_999_999_999}},
    ],
    ids=["longest", "before", "idle", "last year", "first year", "load", "ordinal"],
)
def test_a_replica_beyond_measure_is_refused(lie: dict[str, Any]) -> None:
    assert ObservedReplica.model_validate(REPLICA).state_for.total_seconds() >= 0
    with pytest.raises(ValidationError):
        ObservedReplica.model_validate(REPLICA | lie)


@pytest.mark.parametrize("seconds", ["Infinity", "NaN", "-1", "1e300"])
def test_a_load_time_is_a_number_of_seconds(seconds: str) -> None:
    with pytest.raises(ValidationError):
        LoadTime.model_validate_json(f'{{"model": "m", "seconds": {seconds}}}')


def test_what_a_node_remembers_is_bounded_too() -> None:
    with pytest.raises(ValidationError):
        FailedStarts.model_validate({"in_a_row": 3, "last_for": "P999999999D"})
    with pytest.raises(ValidationError):
        FailedLaunch.model_validate({"model": "m", "ordinal": 10**11, "digest": "0" * 64, "failure": "no"})
