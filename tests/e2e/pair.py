"""Two real agents on loopback, as two nodes would have them, and one model over both."""

from __future__ import annotations

import json
import socket
import urllib.request
from typing import TYPE_CHECKING, Any

import psutil

from reconciler.agent.config import AgentConfig
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from tests.e2e.site import Site
from tests.tiny_llama import write_tiny_llama

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

POOL = """pool: here
gpus: {{class: l4, count: {gpus}}}
memory_gib: 32
cpu_cores: 4
nodes:
{nodes}"""
MODEL = """name: giant
source: file:{weights}
context: 256
unverified: true
profiles:
  - {{name: two-nodes, engine: {engine}, gpu_class: l4, gpus: {gpus}, nodes: 2{further}}}
rollout: {{min_ready: 0s, withdraw_delay: 0s, drain_timeout: 5s}}
"""
NAMES = ("gpu-01", "gpu-02")
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Of the two nodes: ranks of one replica that listen on the same ports must not meet each other there."""


class Pair:
    """Two agents of one fleet, as two nodes would have them."""

    def __init__(self, root: Path, engine: Engine, command: tuple[str, ...], *, gpus: int = 1) -> None:
        self.site = Site(root / "m")
        self.engine, self.gpus = engine, gpus
        self.weights = write_tiny_llama(root / "m" / "weights")
        self.agents: dict[str, subprocess.Popen[str]] = {}
        ports = {name: _free_port(host) for name, host in zip(NAMES, HOSTS, strict=True)}
        addresses = {name: f"http://{host}:{ports[name]}" for name, host in zip(NAMES, HOSTS, strict=True)}
        listed = "".join(f"  - {{name: {name}, address: '{addresses[name]}'}}\n" for name in NAMES)
        self.site.write("cluster/nodes/here.yaml", POOL.format(nodes=listed, gpus=gpus))
        for name in NAMES:
            config = AgentConfig(
                node=name,
                listen=addresses[name],
                state_dir=root / "m" / name,
                gpus=("l4",) * gpus,
                memory_gib=32,
                cpu_cores=4,
                engines={engine: command},
            )
            self.site.write(f"{name}.json", config.model_dump_json())
            self.begin(name)

    def begin(self, name: str) -> None:
        """Start the agent of one node."""
        self.agents[name] = self.site.start("agent", "--config", str(self.site.root / f"{name}.json"))

    def model(self, further: str = "") -> None:
        self.site.write("cluster/models/giant.yaml", self.text(further))
        self.site.commit()

    def text(self, further: str = "") -> str:
        """The model's file, with further fields of its profile."""
        return MODEL.format(engine=self.engine, gpus=self.gpus, weights=self.weights, further=further)

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


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
