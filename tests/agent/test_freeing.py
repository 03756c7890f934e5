"""Memory of GPUs that is not free at once: what a start and the end of a stop wait for, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from reconciler.agent.cards import Measurement
from reconciler.agent.inventory import Inventory, inventory
from reconciler.domain.observed import ReplicaState
from tests.agent.bench import Bench
from tests.agent.entries import run_entry, stop_entry
from tests.agent.test_inventory import a_card, node

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.observed import ObservedReplica

pytestmark = pytest.mark.anyio

GONE = "GPU is lost"


class ScriptedGpus:
    """Two cards; what was set last is seen from the next look on."""

    def __init__(self) -> None:
        self._next = self._seen = Inventory()
        self.set()

    def set(self, **first: Any) -> None:
        found = Measurement(cards=(a_card(0, **first), a_card(1)))
        self._next = inventory(node("l4", "l4"), found, self._seen)

    def seen(self) -> Inventory:
        return self._seen

    async def look(self) -> None:
        self._seen = self._next


@pytest.fixture
async def gpus() -> ScriptedGpus:
    made = ScriptedGpus()
    await made.look()
    return made


@pytest.fixture
def bench(tmp_path: Path, gpus: ScriptedGpus) -> Bench:
    made = Bench(tmp_path)
    made.gpus = gpus
    made.restart()
    return made


def waits(bench: Bench) -> tuple[ReplicaState, str | None, str | None]:
    seen: ObservedReplica = bench.one()
    return seen.state, seen.stage, seen.progress


async def test_a_start_waits_while_something_is_in_the_memory_of_its_own_gpu(bench: Bench, gpus: ScriptedGpus) -> None:
    gpus.set(used_mib=40_960)
    await bench.send(run_entry(gpus=(0,)), run_entry(1, gpus=(1,)))
    states = {each.entry.ordinal: (each.state, each.progress) for each in bench.node().replicas}
    assert states == {0: (ReplicaState.PENDING, "GPU 0 has 40.0 GiB in use"), 1: (ReplicaState.STARTING, None)}
    gpus.set(used_mib=600)  # what a driver needs for itself
    await bench.after(1)
    assert {each.state for each in bench.node().replicas} == {ReplicaState.STARTING}


async def test_after_a_minute_the_start_says_itself_what_is_wrong(bench: Bench, gpus: ScriptedGpus) -> None:
    gpus.set(used_mib=2_048)
    await bench.send(run_entry(gpus=(0,)))
    await bench.through(55)
    assert waits(bench) == (ReplicaState.PENDING, "waiting for its GPUs to be free", "GPU 0 has 2.0 GiB in use")
    await bench.after(5)
    assert bench.one().state is ReplicaState.STARTING


async def test_a_start_waits_for_a_driver_that_does_not_answer(bench: Bench, gpus: ScriptedGpus) -> None:
    gpus.set(failure=GONE, used_mib=None)
    await bench.send(run_entry(gpus=(0,)))
    assert waits(bench)[2] == "GPU 0 does not answer its driver"
    gpus.set()
    await bench.after(1)
    assert bench.one().state is ReplicaState.STARTING


async def test_an_engine_that_was_killed_is_launched_again_once_its_memory_is_free(
    bench: Bench, gpus: ScriptedGpus
) -> None:
    await bench.serve(run_entry(gpus=(0,)))
    gpus.set(used_mib=30_720)
    bench.driver.newest.end(code=1)
    await bench.settle()
    await bench.after(10)
    assert waits(bench) == (ReplicaState.PENDING, "waiting for its GPUs to be free", "GPU 0 has 30.0 GiB in use")
    gpus.set()
    await bench.after(1)
    assert bench.one().state is ReplicaState.READY


async def test_a_stop_is_over_when_the_memory_is_free(bench: Bench, gpus: ScriptedGpus) -> None:
    entry = run_entry(gpus=(0,))
    await bench.serve(entry)
    gpus.set(used_mib=30_720)
    await bench.send(stop_entry(entry, withdraw=0, drain=0))
    assert bench.driver.newest.signals != []
    assert bench.one().state is ReplicaState.STOPPING
    revision = bench.node().revision
    gpus.set()
    await bench.after(1)
    assert bench.node().replicas == ()
    assert bench.node().revision > revision
    assert bench.node().gpus[0].used_mib == 4, "gone and free are told together"


async def test_a_stop_ends_after_a_minute_whatever_is_in_the_memory(bench: Bench, gpus: ScriptedGpus) -> None:
    entry = run_entry(gpus=(0,))
    await bench.serve(entry)
    gpus.set(used_mib=30_720)
    await bench.send(stop_entry(entry, withdraw=0, drain=0))
    await bench.through(55)
    assert bench.one().state is ReplicaState.STOPPING
    await bench.through(10)
    assert bench.node().replicas == ()


async def test_a_change_of_the_cards_is_a_transition_and_memory_that_moves_is_not(
    bench: Bench, gpus: ScriptedGpus
) -> None:
    revision = bench.node().revision
    gpus.set(used_mib=500)
    await gpus.look()
    bench.supervisor.tend()
    assert (bench.node().revision, bench.node().gpus[0].used_mib) == (revision, 500)
    gpus.set(failure=GONE, used_mib=None)
    await gpus.look()
    bench.supervisor.tend()
    bench.supervisor.tend()
    after = bench.node()
    assert after.revision == revision + 1
    assert after.gpu_problems[0].endswith("does not answer: GPU is lost")
