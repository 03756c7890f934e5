"""A real agent on a node with a driver: NVIDIA's library is stood in for by a small one, everything else is real."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from reconciler.agent.cards import Measurement
from reconciler.agent.gpus import MeasuredGpus, may_have_driver
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import GpuLinks, ReplicaState
from reconciler.domain.placement import PlacedGpu, Shard
from tests.agent.entries import NODE, stop_entry
from tests.agent.waiting import wait_until

if TYPE_CHECKING:
    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.observed import ObservedGpu
    from tests.agent.machine import Machine

SOURCE = Path(__file__).with_name("nvml_stand_in.c")
WAITS = ("/bin/sh", "-c", "while :; do sleep 1; done", "engine")
H100 = "NVIDIA H100 80GB HBM3"
UUIDS = [f"GPU-{digit * 8}-0000-4000-8000-000000000000" for digit in "0123"]
BUSES = ["00000000:17:00.0", "00000000:2A:00.0", "00000000:3D:00.0", "00000000:A1:00.0"]


class Driver:
    """The cards that the driver tells of; a test changes them while the agent runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tells(*(card(index) for index in range(4)))

    def tells(self, *lines: str) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_text("".join(f"{line}\n" for line in lines))
        beside.replace(self.path)


def card(index: int, *, used: int = 4, state: str = "ok", total: int = 81_559, name: str = H100) -> str:
    """Cards 0 to 2 are one NVLink island, 0 and 1 hang on one switch."""
    return f"card {BUSES[index]} {UUIDS[index]} {total} {used} {state} {int(index < 3)} {int(index < 2)} {name}"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the library in it."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("nvml")
    words = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(folder / "libnvidia-ml.so.1")]
    subprocess.run([*words, str(SOURCE)], check=True)
    return folder


@pytest.fixture
def driver(library: Path, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.delenv("RECONCILER_GPUS", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("NVML_STAND_IN", str(tmp_path / "cards"))
    machine.config = machine.config.model_copy(update={"engines": {Engine.VLLM: WAITS}})
    return Driver(tmp_path / "cards")


def declare(machine: Machine, *gpus: str) -> None:
    machine.config = machine.config.model_copy(update={"gpus": gpus})


def on(machine: Machine, *placed: ObservedGpu, ordinal: int = 0) -> RunEntry:
    """A replica on these GPUs."""
    entry = machine.entry(ordinal, engine=Engine.VLLM, gpus=tuple(gpu.index for gpu in placed))
    gpus = tuple(PlacedGpu(uuid=gpu.uuid, index=gpu.index) for gpu in placed)
    placement = entry.placement.model_copy(update={"shards": (Shard(node=NODE, gpus=gpus),)})
    declaration = entry.declaration.model_copy(update={"gpu_class": placed[0].gpu_class})
    return entry.model_copy(update={"placement": placement, "declaration": declaration})


def environment(machine: Machine) -> dict[str, str]:
    """Of the one replica's process, once it runs."""
    wait_until(lambda: machine.one().pid is not None)
    return psutil.Process(machine.one().pid).environ()


def test_the_cards_are_those_that_the_driver_shows_and_an_engine_gets_its_own(machine: Machine, driver: Driver) -> None:
    driver.tells(card(3), card(1, used=70_000), card(0), card(2))  # no order that a driver promises
    machine.ensure()
    seen = machine.node()
    assert [(gpu.index, gpu.uuid, gpu.gpu_class) for gpu in seen.gpus] == [
        (index, uuid, "h100-80gb") for index, uuid in enumerate(UUIDS)
    ]
    assert [(gpu.memory_mib, gpu.used_mib, gpu.answers) for gpu in seen.gpus] == [
        (81_559, 70_000 if index == 1 else 4, True) for index in range(4)
    ]
    island, switch = BUSES[0].lower(), BUSES[0].lower()
    assert [gpu.links for gpu in seen.gpus] == [
        GpuLinks(nvlink=island, switch=switch),
        GpuLinks(nvlink=island, switch=switch),
        GpuLinks(nvlink=island),
        GpuLinks(),
    ]
    assert seen.gpu_problems == ()
    machine.send(on(machine, seen.gpus[3], seen.gpus[0]))
    found = environment(machine)
    assert found["CUDA_VISIBLE_DEVICES"] == f"{UUIDS[3]},{UUIDS[0]}"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_card_that_is_lost_does_not_answer_and_is_no_other_card(machine: Machine, driver: Driver) -> None:
    machine.ensure()
    before = machine.node()
    driver.tells(card(0), card(1, state="gone"), card(2, state="lost"))  # and the last is not shown any more
    machine.send(on(machine, before.gpus[0]))  # a start looks first
    wait_until(lambda: machine.one().pid is not None)
    after = machine.node(since=before.revision, wait="10s")
    assert [(gpu.index, gpu.uuid, gpu.gpu_class) for gpu in after.gpus] == [
        (gpu.index, gpu.uuid, gpu.gpu_class) for gpu in before.gpus
    ]
    assert [(gpu.answers, gpu.used_mib) for gpu in after.gpus] == [(True, 4)] + [(False, None)] * 3
    assert after.gpu_problems == (
        "GPUs 1, 2 do not answer: GPU is lost",
        f"GPU 3 ({H100}, {UUIDS[3]}, {BUSES[3].lower()}) does not answer: the driver no longer shows it",
    )


def test_a_start_waits_for_memory_and_a_stop_is_over_when_it_is_free(machine: Machine, driver: Driver) -> None:
    driver.tells(card(0, used=30_000))
    machine.ensure()
    entry = on(machine, machine.node().gpus[0])
    machine.send(entry)
    wait_until(lambda: machine.one().progress == "GPU 0 has 29.3 GiB in use")
    assert (machine.one().state, machine.one().stage) == (ReplicaState.PENDING, "waiting for its GPUs to be free")
    driver.tells(card(0))
    wait_until(lambda: machine.one().pid is not None)
    engine = machine.one().pid
    assert engine is not None
    driver.tells(card(0, used=60_000))
    machine.send(stop_entry(entry, withdraw=0, drain=0))
    wait_until(lambda: not psutil.pid_exists(engine))
    time_looked_at = machine.node().revision
    assert machine.node(since=time_looked_at, wait="1s").replicas[0].state is ReplicaState.STOPPING
    driver.tells(card(0))
    wait_until(lambda: machine.node().replicas == ())
    assert [gpu.used_mib for gpu in machine.node().gpus] == [4], "gone and free are told together"


def test_slices_of_a_card_are_gpus_of_their_own(machine: Machine, driver: Driver) -> None:
    driver.tells(card(0), "slice MIG-aaaa 9856 13 1", "slice MIG-bbbb 40448 13 3", card(1))
    declare(machine, "h100-80gb/1g.10gb", "h100-80gb/3g.40gb", "h100-80gb")
    machine.ensure()
    seen = machine.node()
    assert [(gpu.uuid, gpu.gpu_class, gpu.memory_mib) for gpu in seen.gpus] == [
        ("MIG-aaaa", "h100-80gb/1g.10gb", 9_856),
        ("MIG-bbbb", "h100-80gb/3g.40gb", 40_448),
        (UUIDS[1], "h100-80gb", 81_559),
    ]
    assert seen.gpu_problems == ()
    machine.send(on(machine, seen.gpus[1]))
    assert environment(machine)["CUDA_VISIBLE_DEVICES"] == "MIG-bbbb"


def test_what_is_declared_counts_and_what_contradicts_it_is_told(machine: Machine, driver: Driver) -> None:
    driver.tells(*(card(index, total=23_034, name="NVIDIA L4") for index in range(2)))
    declare(machine, *["l40s"] * 3)
    machine.ensure()
    seen = machine.node()
    assert [(gpu.uuid, gpu.gpu_class) for gpu in seen.gpus] == [(UUIDS[0], "l40s"), (UUIDS[1], "l40s")]
    assert seen.gpu_problems == (
        (
            "3 GPUs declared and the driver shows 2: only those that are there are used; "
            "correct gpus in agent.json, of the local node in nodes/"
        ),
        (
            "GPUs 0, 1 are declared l40s, which counts, and the driver shows NVIDIA L4 with 23034 MiB, class l4; "
            "correct gpus in agent.json, of the local node in nodes/"
        ),
    )
    log = (machine.config.directory / "agent.log").read_text()
    assert all(problem in log for problem in seen.gpu_problems)


def test_a_class_of_the_fleets_own_contradicts_nothing(machine: Machine, driver: Driver) -> None:
    driver.tells(card(0, total=12_288, name="NVIDIA GeForce RTX 3060"))
    declare(machine, "lab-12gb")
    machine.ensure()
    assert [(gpu.uuid, gpu.gpu_class) for gpu in machine.node().gpus] == [(UUIDS[0], "lab-12gb")]
    assert machine.node().gpu_problems == ()


def test_without_a_driver_the_declared_ones_hold(machine: Machine, driver: Driver) -> None:
    driver.path.unlink()
    declare(machine, "l4")
    machine.ensure()
    (gpu,) = machine.node().gpus
    assert (gpu.gpu_class, gpu.answers, gpu.used_mib) == ("l4", True, None)
    assert gpu.uuid not in UUIDS
    assert machine.node().gpu_problems == ()


def test_a_placement_on_no_card_of_the_node_is_refused_before_a_start(machine: Machine, driver: Driver) -> None:
    driver.tells(card(0))
    machine.ensure()
    (gpu,) = machine.node().gpus
    machine.send(on(machine, gpu.model_copy(update={"uuid": "GPU-of-before"})))
    failed = machine.reach(ReplicaState.FAILED)
    assert failed.pid is None
    assert failed.failure == (
        f"{failed.id} is placed on GPU 0 (GPU-of-before), and here has 0 ({UUIDS[0]}); "
        "plan again: the placement is older than what the node's driver shows"
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("init 18", "NVIDIA's driver says: RM has detected an NVML/RM version mismatch"),
        ("crash", "asking the driver crashed with SIGSEGV"),
    ],
)
def test_a_driver_that_fails_leaves_the_agent_and_its_engines_and_comes_back(
    machine: Machine, driver: Driver, line: str, problem: str
) -> None:
    machine.ensure()
    before = machine.node()
    machine.send(on(machine, before.gpus[0]))
    wait_until(lambda: machine.one().pid is not None)
    engine, agent = machine.one().pid, machine.agent.pid
    driver.tells(line)
    running, other = on(machine, before.gpus[0]), on(machine, before.gpus[1], ordinal=1)
    machine.send(running, other)  # a start looks first
    wait_until(lambda: not any(gpu.answers for gpu in machine.node().gpus))
    seen = machine.node()
    assert [gpu.uuid for gpu in seen.gpus] == UUIDS, "unknown, not gone"
    assert seen.gpu_problems == (f"GPUs 0 to 3 do not answer: {problem}",)
    driver.tells(*(card(index) for index in range(4)))
    wait_until(lambda: all(each.pid is not None for each in machine.node().replicas))
    assert machine.node().gpu_problems == ()
    assert (machine.node().replicas[0].pid, machine.agent.pid) == (engine, agent)


def test_a_driver_that_hangs_holds_up_neither_the_agent_nor_its_end(machine: Machine, driver: Driver) -> None:
    driver.tells("hang")
    declare(machine, "h100-80gb")
    machine.ensure()
    seen = machine.node()
    assert [(gpu.gpu_class, gpu.answers) for gpu in seen.gpus] == [("h100-80gb", False)]
    assert seen.gpu_problems == ("1 GPU declared, and none can be used: the driver has not answered for 5 s",)
    agent = machine.agent
    (hung,) = agent.children()
    began = time.monotonic()
    agent.terminate()
    wait_until(lambda: not agent.is_running() or agent.status() == psutil.STATUS_ZOMBIE)
    assert time.monotonic() - began < 3
    hung.kill()


def test_one_card_that_tells_nonsense_is_the_only_one_that_does_not_answer(machine: Machine, driver: Driver) -> None:
    driver.path.write_bytes(
        b"\n".join((card(0).encode(), card(1, name="#").encode()[:-1] + b"\xff\xfe", card(2, name=" ").encode()))
    )
    declare(machine, "h100-80gb", "h100-80gb", "h100-80gb")
    machine.ensure()
    assert [(gpu.uuid, gpu.answers) for gpu in machine.node().gpus] == [
        (UUIDS[0], True),
        (UUIDS[1], False),
        (UUIDS[2], True),
    ]
    silent, blank = machine.node().gpu_problems[0], machine.node().gpu_problems[1:]
    assert silent.endswith("does not answer: its driver tells a text that is not UTF-8 (b'\\xff\\xfe')")
    assert blank == ()


@pytest.mark.parametrize(
    ("begins_with", "problem"),
    [
        ("raise(SIGSEGV)", "asking the driver crashed with SIGSEGV"),
        ("raise(40)", "asking the driver crashed with signal 40"),
        ("for (;;) pause()", "the driver has not answered for 5 s"),
    ],
)
def test_a_library_that_cannot_even_be_loaded_leaves_the_agent(
    machine: Machine, driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins_with: str, problem: str
) -> None:
    assert driver.path.exists()
    source, library = tmp_path / "broken.c", tmp_path / "libnvidia-ml.so.1"
    source.write_text(
        "#include <signal.h>\n#include <unistd.h>\n"
        f"__attribute__((constructor)) static void begin(void) {{ {begins_with}; }}\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    declare(machine, "h100-80gb")
    machine.ensure()
    assert machine.node().gpu_problems == (f"1 GPU declared, and none can be used: {problem}",)
    for hung in machine.agent.children():
        hung.kill()


@pytest.mark.parametrize("folders", ["{}", "/nowhere:{}", "/nowhere;{}:"])
def test_a_driver_is_looked_for_without_loading_it(tmp_path: Path, folders: str) -> None:
    beside = {"LD_LIBRARY_PATH": folders.format(tmp_path)}
    empty = may_have_driver(beside, tmp_path / "sys")
    (tmp_path / "libnvidia-ml.so.1").write_text("no library at all")
    assert may_have_driver(beside, tmp_path / "sys")
    (tmp_path / "libnvidia-ml.so.1").unlink()
    (tmp_path / "sys/class/kfd/kfd/topology/nodes").mkdir(parents=True)
    assert may_have_driver(beside, tmp_path / "sys")
    assert empty == may_have_driver({}, tmp_path / "nowhere"), "only what this machine has itself"


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_after_a_measurement_that_failed_in_an_unforeseen_way_the_next_one_follows(machine: Machine) -> None:
    told: list[str] = []

    def measured() -> Measurement:
        if not told:
            raise RuntimeError("who knows")
        return Measurement(problem="but this is")

    declare(machine, "h100-80gb")
    gpus = MeasuredGpus(machine.config, measured)
    for _ in range(2):
        await gpus.look()
        told.append(gpus.seen().problems[0].rpartition(": ")[2])
    assert told == ["the measurement failed; agent.log says how", "but this is"]


def test_a_drill_asks_no_driver(machine: Machine, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_GPUS", "declared")
    declare(machine, "l4", "l4")
    machine.ensure()
    assert [gpu.gpu_class for gpu in machine.node().gpus] == ["l4", "l4"]
    assert not set(UUIDS) & {gpu.uuid for gpu in machine.node().gpus}
    assert driver.path.exists()
