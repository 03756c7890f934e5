"""The reconciler, or an agent, is killed at one of its calls in a rollout: real git, agents, sockets and llama.cpp.

A spread of the crash points, for every kind of call and each moment of it. `tests/real` goes through all of them;
`tests/scenarios` does that on the simulated fleet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.door import CrashPoint, Moment
from tests.e2e.three_nodes import three_nodes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)

RECONCILER_DIES = {
    "surge": [
        CrashPoint("assign", 0, Moment.FENCED),  # its start arrives when the next one has claimed
        CrashPoint("assign", 1, Moment.AFTER),  # the successor serves, and the first is being stopped
        CrashPoint("assign", 2, Moment.LATE),
        CrashPoint("observe", 10, Moment.AFTER),
    ],
    "in_place": [
        CrashPoint("claim", 1, Moment.LATE),
        CrashPoint("assign", 0, Moment.AFTER),  # one is away, and its successor is not started
        CrashPoint("assign", 1, Moment.BEFORE),
        CrashPoint("release", 0, Moment.BEFORE),
    ],
}
AGENT_DIES = {
    "surge": [CrashPoint("assign", 1, Moment.BEFORE)],
    "in_place": [CrashPoint("assign", 0, Moment.AFTER)],
}


@pytest.mark.parametrize("strategy", RECONCILER_DIES)
def test_whenever_one_dies_the_next_apply_finishes_the_rollout(strategy: str, tmp_path: Path) -> None:
    with three_nodes(tmp_path, strategy) as nodes:
        for dies, points in (("reconciler", RECONCILER_DIES[strategy]), ("agent", AGENT_DIES[strategy])):
            for point in points:
                told = nodes.course(point, dies=dies)
                assert told.struck is not None, f"there was no {point}"
