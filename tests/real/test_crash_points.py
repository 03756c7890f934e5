"""Whichever call of a rollout the reconciler is killed at, or the agent that it calls: the next apply finishes it.

Every call of a surge and of a rollout in place of three replicas, on real agents with llama.cpp in the wheel: those
that change something at each moment of theirs, and observations once, since what an agent tells changes nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.three_nodes import FEWEST, every_point, three_nodes
from tests.real.machine import tell

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.real, pytest.mark.timeout(7200)]


@pytest.mark.parametrize("dies", ["reconciler", "agent"])
@pytest.mark.parametrize("strategy", FEWEST)
def test_whenever_one_dies_the_next_apply_finishes_the_rollout(strategy: str, dies: str, tmp_path: Path) -> None:
    began = time.monotonic()
    with three_nodes(tmp_path, strategy) as nodes:
        points = every_point(nodes.course(None).calls, dies)
        struck = [point for point in points if nodes.course(point, dies=dies).struck is not None]
    seconds = time.monotonic() - began
    tell(f"llama.cpp, wheel: {strategy}, {dies} killed at {len(struck)} crash points, all finished: {seconds:.0f} s")
    assert {(each.kind, each.moment) for each in struck} == {(each.kind, each.moment) for each in points}
    assert len(struck) >= 0.9 * len(points), "a course makes a call more or less than another, and not more than that"
