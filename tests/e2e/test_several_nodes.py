"""Two real agents on loopback: one replica over both nodes, whose ranks stand and fall together; and live adapters."""

from __future__ import annotations

import json
import socket
import sys
import urllib.request
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from reconciler.agent.config import AgentConfig
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from tests.e2e.site import Site, wait_until
from tests.tiny_llama import write_tiny_adapter, write_tiny_llama

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(240)

POOL = """pool: here
gpus: {{class: l4, count: 1}}
memory_gib: 32
cpu_cores: 4
nodes:
{nodes}"""
MODEL = """name: giant
source: file:{weights}
context: 256
unverified: true
profiles:
  - {{name: two-nodes, engine: vllm, gpu_class: l4, gpus: 1, nodes: 2{further}}}
rollout: {{min_ready: 0s, withdraw_delay: 0s, drain_timeout: 5s}}
"""
NAMES = ("gpu-01", "gpu-02")
STAND_IN = (sys.executable, str(Path(__file__).with_name("vllm_stand_in.py")))


class Pair:
    """Two agents of one fleet, as two nodes would have them."""

    def __init__(self, root: Path, command: tuple[str, ...] = STAND_IN) -> None:
        self.site = Site(root / "m")
        self.weights = write_tiny_llama(root / "m" / "weights")
        self.agents: dict[str, subprocess.Popen[str]] = {}
        ports = {name: _free_port() for name in NAMES}
        listed = "".join(f"  - {{name: {name}, address: 'http://127.0.0.1:{ports[name]}'}}\n" for name in NAMES)
        self.site.write("cluster/nodes/here.yaml", POOL.format(nodes=listed))
        for name in NAMES:
            config = AgentConfig(
                node=name,
                listen=f"http://127.0.0.1:{ports[name]}",
                state_dir=root / "m" / name,
                gpus=("l4",),
                memory_gib=32,
                cpu_cores=4,
                engines={Engine.VLLM: command},
            )
            self.site.write(f"{name}.json", config.model_dump_json())
            self.begin(name)

    def begin(self, name: str) -> None:
        """Start the agent of one node."""
        self.agents[name] = self.site.start("agent", "--config", str(self.site.root / f"{name}.json"))

    def model(self, further: str = "") -> None:
        self.site.write("cluster/models/giant.yaml", MODEL.format(weights=self.weights, further=further))
        self.site.commit()

    def ranks(self) -> dict[int, psutil.Process]:
        """The engine of each rank."""
        found = {}
        for each in self.site.processes():
            words = each.cmdline()
            if "--node-rank" in words:
                found[int(words[words.index("--node-rank") + 1])] = each
        return found

    def engines(self) -> list[psutil.Process]:
        return [each for each in self.site.processes() if "--served-model-name" in each.cmdline()]

    def listed(self) -> set[str]:
        """Names that the one engine answers to."""
        (address,) = self.site.addresses()
        with urllib.request.urlopen(f"{address}/v1/models", timeout=20) as answer:
            return {each["id"] for each in json.load(answer)["data"]}

    def stop(self) -> None:
        """Take the model out of the tree, and with it its engines."""
        (self.site.root / "cluster/models/giant.yaml").unlink()
        self.site.write("cluster/cluster.yaml", "name: test\nallow_empty: true\n")
        self.site.commit()
        self.site.apply()
        assert self.engines() == []

    def parts(self) -> list[dict[str, Any]]:
        return sorted(self.site.replicas(), key=lambda each: str(each["node"]))

    def serves(self) -> bool:
        """Whether every part is ready."""
        return [each["state"] for each in self.parts()] == [ReplicaState.READY, ReplicaState.READY]

    def clear(self) -> list[str]:
        """End the agents, then what is left of engines; what should not have been there."""
        for agent in self.agents.values():
            agent.terminate()
            agent.communicate(timeout=20)
        left = [" ".join(each.cmdline()) for each in self.site.processes()]
        for each in self.site.processes():
            each.kill()
        return left


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_new(pair: Pair, old: set[int]) -> bool:
    return sorted(pair.ranks()) == [0, 1] and old.isdisjoint(each.pid for each in pair.ranks().values())


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    assert made.clear() == [], "an engine was left behind"


def with_adapters(pair: Pair, *names: str) -> str:
    """A model of one node with these adapters; their paths are in the weights' directory."""
    text = MODEL.format(weights=pair.weights, further="").replace("nodes: 2", "nodes: 1")
    rows = ", ".join(f"{{name: {name}, source: 'file:{pair.weights}/{name}'}}" for name in names)
    for name in names:
        write_tiny_adapter(pair.weights / name)
    pair.site.write("cluster/models/giant.yaml", f"{text}adapters: [{rows}]\n")
    return pair.site.commit()


def test_adapters_come_and_go_by_apply_and_nothing_restarts(pair: Pair) -> None:
    with_adapters(pair, "sql")
    pair.site.apply()
    (engine,) = pair.engines()
    with_adapters(pair, "sql", "code")
    (change,) = pair.site.plan()["changes"]
    assert (change["action"], [each["field"] for each in change["fields"]]) == ("update", ["adapters"])
    told = pair.site.apply()
    assert pair.listed() == {"giant", "sql", "code"}
    with_adapters(pair, "code")
    pair.site.apply()
    assert pair.listed() == {"giant", "code"}
    assert [each.pid for each in pair.engines()] == [engine.pid], told
    assert [each["action"] for each in pair.site.plan()["changes"]] == ["none"]
    pair.stop()


def word(process: psutil.Process, flag: str) -> str:
    words = process.cmdline()
    return words[words.index(flag) + 1]


def test_each_node_runs_its_rank_and_they_stand_and_fall_together(pair: Pair) -> None:
    pair.model()
    pair.site.apply()
    ranks = pair.ranks()
    assert sorted(ranks) == [0, 1]
    assert {word(each, "--master-addr") for each in ranks.values()} == {"127.0.0.1"}
    assert len({word(each, "--master-port") for each in ranks.values()}) == 1
    assert ("--headless" in ranks[0].cmdline(), "--headless" in ranks[1].cmdline()) == (False, True)
    assert [(each["node"], each["state"]) for each in pair.parts()] == [(name, ReplicaState.READY) for name in NAMES]

    ranks[1].send_signal(SIGKILL)
    old = {each.pid for each in ranks.values()}
    wait_until(lambda: _is_new(pair, old), 120, "the agents have launched both again, with no reconciler there")
    wait_until(pair.serves, 60, "they serve")
    again = pair.ranks()
    assert [each["action"] for each in pair.site.plan()["changes"]] == ["none"]

    pair.agents["gpu-02"].kill()
    pair.agents["gpu-02"].communicate()
    pair.begin("gpu-02")
    wait_until(pair.serves, 30, "the rank is adopted")
    assert {each.pid for each in pair.ranks().values()} == {each.pid for each in again.values()}
    pair.stop()


def test_a_leader_that_goes_on_without_a_rank_is_launched_again_with_it_by_apply(pair: Pair) -> None:
    """No agent knows that it hangs: it answers, and its own process runs."""
    pair.model(further=", env: {STAND_IN_HANGS: yes}")
    pair.site.apply()
    ranks = pair.ranks()
    ranks[1].send_signal(SIGKILL)
    wait_until(lambda: [each["state"] for each in pair.parts()] == ["ready", "failed"], 30, "one part has failed")
    pair.site.apply()
    again = pair.ranks()
    assert sorted(again) == [0, 1]
    assert {each.pid for each in again.values()}.isdisjoint({each.pid for each in ranks.values()})
    assert pair.serves()
    pair.stop()
