"""A real agent on this machine: its own process, llama.cpp's server with a tiny model, HTTP over its Unix socket."""

from __future__ import annotations

import itertools
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

import httpx
import psutil

from reconciler.agent.config import AgentConfig
from reconciler.agent.drivers.process import ProcessDriver
from reconciler.agent.local import ensure_agent, offline_observation, socket_path, stop_agent
from reconciler.agent.lock import lock_holder
from reconciler.domain.assignment import Entry, Refusal, RunEntry
from reconciler.domain.observed import ObservedReplica, ReachableNode, ReplicaState
from tests.agent.entries import NODE, assignment, claim_request, run_entry
from tests.agent.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Nothing here speaks TLS; a context of its own spares each client the loading of the CA store."""


@dataclass
class Machine:
    """One state directory with the agent that belongs to it."""

    state: Path
    weights: Path
    config: AgentConfig = field(init=False)
    epoch: int = 0
    generations: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.config = AgentConfig(
            node=NODE, listen=f"unix:{socket_path(self.state)}", state_dir=self.state, cpu_cores=4, memory_gib=4
        )

    # The agent's process.

    def ensure(self) -> None:
        ensure_agent(self.state, self.config)

    @property
    def agent(self) -> psutil.Process:
        holder = lock_holder(self.state)
        assert holder is not None
        return psutil.Process(holder.identity.pid)

    def kill_agent(self) -> None:
        """kill -9."""
        holder = lock_holder(self.state)
        assert holder is not None
        driver = ProcessDriver()
        driver.signal(holder.identity, SIGKILL)
        wait_until(lambda: not driver.alive(holder.identity))

    def clear(self) -> list[str]:
        """Stop everything; command lines of what is left although it should not be."""
        stop_agent(self.state, engines=True)
        return [" ".join(each.cmdline()) for each in self.processes()]

    def processes(self) -> list[psutil.Process]:
        """Every process of this machine: the state directory or the weights stand in its command line."""
        found = []
        for each in psutil.process_iter(["cmdline", "status"]):
            words = " ".join(each.info["cmdline"] or [])
            if (str(self.state) in words or str(self.weights) in words) and each.info["status"] != "zombie":
                found.append(each)
        return found

    # What a reconciler asks of it.

    def request(self, method: str, path: str, **rest: Any) -> httpx.Response:
        transport = httpx.HTTPTransport(uds=str(socket_path(self.state)), verify=NO_TLS)
        with httpx.Client(transport=transport, base_url="http://agent", timeout=40) as client:
            return client.request(method, path, **rest)

    def claim(self, name: str = "apply-1", **rest: Any) -> httpx.Response:
        answer = self.request("POST", "/v1/claim", json=claim_request(name, **rest).model_dump(mode="json"))
        if answer.status_code == 200:
            self.epoch = answer.json()["epoch"]
        return answer

    def send(self, *entries: Entry) -> int:
        """Claim and assign; the revision at which it holds."""
        self.claim()
        body = assignment(*entries, epoch=self.epoch, generation=next(self.generations))
        answer = self.request("PUT", "/v1/assignment", json=body.model_dump(mode="json"))
        assert answer.status_code == 200, Refusal.model_validate_json(answer.content)
        revision: int = answer.json()["revision"]
        return revision

    def node(self, **params: Any) -> ReachableNode:
        return ReachableNode.model_validate_json(self.request("GET", "/v1/observation", params=params).content)

    def offline(self) -> ReachableNode:
        return offline_observation(self.state, self.config)

    def one(self) -> ObservedReplica:
        (replica,) = self.node().replicas
        return replica

    def entry(self, ordinal: int = 0, **fields: Any) -> RunEntry:
        return run_entry(ordinal, source=f"file:{self.weights}", **fields)

    def serve(self, entry: RunEntry | None = None) -> ObservedReplica:
        """One ready replica."""
        self.ensure()
        self.send(entry or self.entry())
        return self.reach(ReplicaState.READY)

    def reach(self, state: ReplicaState, within: float = 20) -> ObservedReplica:
        wait_until(lambda: self.one().state is state, within)
        return self.one()


def complete(address: str | None, tokens: int = 2) -> str:
    """One completion from an engine; its text."""
    assert address is not None
    body = {"model": "tiny", "prompt": "hello", "max_tokens": tokens}
    answer = httpx.post(f"{address}/v1/completions", json=body, timeout=20, verify=NO_TLS, trust_env=False)
    answer.raise_for_status()
    text: str = json.loads(answer.content)["choices"][0]["text"]
    return text
