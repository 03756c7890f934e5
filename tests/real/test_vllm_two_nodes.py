"""vLLM's CPU build over two nodes: two real agents on loopback, and a profile on CPUs whose `nodes: 2` is two ranks.

On CPUs a rank is a node's: this is also the one way in which YAML asks for tensor parallelism without GPUs.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from reconciler.agent.config import AgentConfig
from reconciler.domain.model_spec import Engine
from tests.e2e.site import wait_until
from tests.real.clients import complete
from tests.real.machine import VLLM, RealSite, gone, timed
from tests.tiny_llama import write_tiny_llama

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(VLLM is None, reason="RECONCILER_VLLM_PYTHON names no Python with vLLM"),
]

NAMES = ("cpu-01", "cpu-02")

# More cores than there are, so that none are dealt out: both agents would deal out the same ones.
POOL = """pool: here
memory_gib: 8
cpu_cores: 64
nodes:
{nodes}"""
MODEL = """name: tiny
source: file:{weights}
context: 2048
unverified: true
scaling: {{min: {replicas}}}
profiles:
  - {{name: both, engine: vllm, nodes: 2, memory_gib: 2.5, cpu_cores: 1, max_concurrency: 2, args: [--enforce-eager]}}
rollout: {{min_ready: 0s, withdraw_delay: 0s, drain_timeout: 10s, ready_timeout: 10m}}
"""


class Pair:
    """Two agents of one fleet, as two nodes would have them."""

    def __init__(self, root: Path) -> None:
        self.site = RealSite(root / "m")
        write_tiny_llama(self.site.root / "llama")
        self.agents: list[subprocess.Popen[str]] = []
        ports = {name: _free_port() for name in NAMES}
        listed = "".join(f"  - {{name: {name}, address: 'http://127.0.0.1:{ports[name]}'}}\n" for name in NAMES)
        self.site.write("cluster/nodes/here.yaml", POOL.format(nodes=listed))
        for name in NAMES:
            config = AgentConfig(
                node=name,
                listen=f"http://127.0.0.1:{ports[name]}",
                state_dir=self.site.root / name,
                memory_gib=8,
                cpu_cores=64,
                engines={Engine.VLLM: (str(VLLM),)},
            )
            self.site.write(f"{name}.json", config.model_dump_json())
            self.agents.append(self.site.start("agent", "--config", str(self.site.root / f"{name}.json")))

    def declare(self, message: str, replicas: int = 1) -> None:
        self.site.declare(MODEL.format(weights=self.site.root / "llama", replicas=replicas), message)

    def parts(self) -> list[dict[str, Any]]:
        """Of the one replica: what each node has of it."""
        return sorted(self.site.replicas(), key=lambda each: str(each["node"]))

    def ranks(self) -> list[list[psutil.Process]]:
        """The processes of each, by rank."""
        first = [psutil.Process(each["pid"]) for each in self.parts()]
        return [[each, *each.children(recursive=True)] for each in first]

    def clear(self) -> list[str]:
        """End the agents, then what is left of engines; what should not have been there."""
        for agent in self.agents:
            agent.terminate()
            agent.communicate(timeout=20)
        left = self.site.processes()
        # The processes below them carry other names than the machine's path.
        for each in [below for one in left for below in (*one.children(recursive=True), one)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        return [each.name() for each in left]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    assert made.clear() == [], "an engine was left behind"


def test_one_replica_over_two_nodes_serves_and_its_ranks_stand_and_fall_together(pair: Pair) -> None:
    pair.declare("serve")
    with timed("vLLM: apply of one replica over two nodes until ready"):
        pair.site.apply()
    assert [(each["node"], each["state"]) for each in pair.parts()] == [(name, "ready") for name in NAMES]
    address, again = pair.site.addresses()
    assert address == again, "both parts are reached through the first node"
    before = pair.ranks()
    assert [[each.name() for each in rank if "Worker" in each.name()] for rank in before] == [
        ["VLLM::Worker_TP0"],
        ["VLLM::Worker_TP1"],
    ]
    text = complete(address)
    assert len(text) > 0
    assert "no changes" in pair.site.apply()

    pids = {each["pid"] for each in pair.parts()}
    before[1][0].send_signal(SIGKILL)
    with timed("vLLM: kill -9 of the second node's process until nothing of it is left"):
        gone(before[1], 60)
    # The first one does not notice while it is idle: its agent's question ends it, and no reconciler runs.
    with timed("vLLM: both parts ready again by their agents alone"):
        wait_until(lambda: _are_new(pair.parts(), pids), 400, "both parts serve in new processes")
    gone(before[0], 5)
    assert complete(pair.site.addresses()[0]) == text
    assert "no changes" in pair.site.apply()

    family = [each for rank in pair.ranks() for each in rank]
    pair.declare("not at all", replicas=0)
    with timed("vLLM: apply that stops one over two nodes"):
        pair.site.apply()
    gone(family, 5)
    assert pair.parts() == []


def _are_new(parts: list[dict[str, Any]], pids: set[int]) -> bool:
    return len(parts) == len(NAMES) and all(each["state"] == "ready" and each["pid"] not in pids for each in parts)
