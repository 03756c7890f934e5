"""The reconciler is killed before and after each of its calls in a rollout: the next one comes to the same end.

For a surge and a rollout in place of three replicas, over every call that the fleet is asked until they are done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from reconciler.domain.observed import ReplicaState
from reconciler.fleet.simulated_engine import Course
from reconciler.fleet.virtual_clock import run_virtually
from tests.scenarios.history import fleet_file, model_file, pool_file
from tests.scenarios.rehearsal import Rehearsal, Rule, opened

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.fleet.protocol import Reached
    from tests.scenarios.cast import Reconciler

pytestmark = pytest.mark.timeout(300)

QUICK = {"min_ready": "2s", "withdraw_delay": "1s", "drain_timeout": "5s"}
ROLLOUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "surge": ({"n1": {"gpus": 2}, "n2": {"gpus": 2}}, {"strategy": "surge"} | QUICK),
    "in_place": ({"n1": {"gpus": 2}, "n2": {"gpus": 1}}, {"strategy": "in_place"} | QUICK),
}
LOAD_SECONDS = 4.0
COURSE = Course(load_seconds=LOAD_SECONDS, drain_seconds=1.0, exit_seconds=1.0)
SETTLED_AT = 10.0
"""Three replicas have started together long before."""
ENDS_WITHIN = 150.0
"""Seconds: three turns of some ten each, and the thirty in which the claims of the dead one lapse."""


@dataclass
class Fatal:
    """A fleet during whose n-th call, counted from when it is armed, the reconciler dies."""

    inner: Reached
    by: Reconciler
    at: tuple[int, bool] | None
    """Which call, and whether it has taken effect by then; None only counts."""
    calls: list[str] = field(default_factory=list)
    armed: bool = False

    async def observe(self, node: str, **rest: Any) -> Any:
        return await self._call("observe", node, self.inner.observe(node, **rest))

    async def claim(self, node: str, *rest: Any) -> Any:
        return await self._call("claim", node, self.inner.claim(node, *rest))

    async def release(self, node: str, *rest: Any) -> Any:
        return await self._call("release", node, self.inner.release(node, *rest))

    async def assign(self, node: str, *rest: Any) -> Any:
        return await self._call("assign", node, self.inner.assign(node, *rest))

    async def close(self) -> None:
        await self.inner.close()

    async def _call(self, what: str, node: str, asked: Any) -> Any:
        number = len(self.calls)
        if self.armed:
            self.calls.append(f"{what} {node}")
        if self.armed and self.at == (number, False):
            asked.close()
            await self._die()
        answer = await asked
        if self.armed and self.at == (number, True):
            await self._die()
        return answer

    async def _die(self) -> None:
        self.by.stage.write(f"{self.by.name} dies: {self.calls[-1]}")
        self.by.stage.crash(self.by.name)
        await anyio.sleep_forever()


async def roll_out(rollout: str, state: Path, at: tuple[int, bool] | None) -> tuple[list[str], list[str]]:
    """What runs at the end, and the calls that were made until it was reached."""
    nodes, policy = ROLLOUTS[rollout]
    stage = Rehearsal(state, rules=[Rule(COURSE)])
    fatal: list[Fatal] = []

    def through(reconciler: Reconciler, fleet: Reached) -> Reached:
        if reconciler.name != "run":
            return fleet
        fatal.append(Fatal(fleet, reconciler, at))
        return fatal[-1]

    stage.through = through
    for name, given in nodes.items():
        stage.add_node(name, given)
    stage.history.files = {"cluster.yaml": fleet_file(), "nodes/pool.yaml": pool_file(nodes)}
    stage.history.files["models/m.yaml"] = model_file("m", {"replicas": 3, "rollout": policy})
    stage.commit("three replicas")
    async with opened(stage):
        stage.start()
        await stage.until(SETTLED_AT)
        fatal[-1].armed = True
        stage.history.files["models/m.yaml"] = model_file("m", {"replicas": 3, "rollout": policy, "context": 8192})
        stage.commit("longer context")
        for second in range(int(ENDS_WITHIN)):
            await stage.until(SETTLED_AT + second)
            _succeed(stage, fatal[-1])
            if _is_done(stage):
                break
        calls = list(fatal[-1].calls)
        await stage.until(anyio.current_time() + 1)
        _succeed(stage, fatal[-1])
        await stage.until(anyio.current_time() + 35)
        working = stage.reconcilers.get("next", stage.reconcilers["run"])
        assert working.last is not None, "\n".join(stage.lines)
        assert working.last.decision.settled, "\n".join(stage.lines)
        assert not any(each.changes_something for each in working.last.decision.orders.values())
        stage.watch.check()
        return _held(stage), calls


def _succeed(stage: Rehearsal, fatal: Fatal) -> None:
    if fatal.by.fleet.is_cut and "next" not in stage.reconcilers:
        stage.start("next")


def _is_done(stage: Rehearsal) -> bool:
    replicas = [each for node in stage.nodes.by_name.values() for each in node.replicas.values()]
    return len(replicas) == 3 and all(
        each.state is ReplicaState.READY and each.entry.declaration.context == 8192 for each in replicas
    )


def _held(stage: Rehearsal) -> list[str]:
    return sorted(
        f"{each.entry.model}/{each.entry.ordinal} {each.entry.declaration.context} {each.state}"
        for node in stage.nodes.by_name.values()
        for each in node.replicas.values()
    )


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("rollout", ROLLOUTS)
def test_whenever_the_reconciler_dies_the_next_one_comes_to_the_same_end(
    rollout: str, after: bool, state: Path
) -> None:
    end, calls = run_virtually(roll_out, rollout, state / "whole", None)
    assert end == [f"m/{ordinal} 8192 ready" for ordinal in range(3)]
    assert sum(call.startswith("assign") for call in calls) >= 6, "three starts and three stops"
    for number, call in enumerate(calls):
        found, _ = run_virtually(roll_out, rollout, state / f"{number}", (number, after))
        assert found == end, f"died at call {number}, {call}"
