"""A real agent with a real engine: the whole life of a replica, and every kill it must survive."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from signal import SIGKILL
from typing import TYPE_CHECKING

import httpx
import psutil

from reconciler.domain.assignment import Refusal
from reconciler.domain.declaration import Declaration
from reconciler.domain.model_spec import SecretRef
from reconciler.domain.observed import ReplicaState
from reconciler.engines.signals import KILLED_FROM_OUTSIDE
from tests.agent.entries import assignment, stop_entry
from tests.agent.machine import NO_TLS, Machine, complete
from tests.agent.waiting import wait_until
from tests.tiny_gguf import write_tiny_lora

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = {"127.0.0.1", "::1"}


def test_a_replica_starts_serves_and_stops(machine: Machine) -> None:
    seen = machine.serve()
    assert seen.routable
    assert seen.load_seconds is not None
    assert len(complete(seen.address)) > 0
    machine.send(stop_entry(seen.entry, withdraw=0, drain=5))
    wait_until(lambda: machine.node().replicas == ())
    assert [each.pid for each in machine.processes()] == [machine.agent.pid]
    assert "hello" not in machine.request("GET", "/v1/logs", params={"replica": seen.id}).text


def test_a_secret_has_a_place_before_anybody_needs_one(machine: Machine) -> None:
    machine.ensure()
    assert machine.config.secrets.stat().st_mode & 0o777 == 0o700
    machine.send(machine.entry(env={"LLAMA_API_KEY": SecretRef(secret="key")}))
    failed = machine.reach(ReplicaState.FAILED)
    assert (failed.failure or "").endswith(f"; put its value into {machine.config.secrets}/key and retry")


def test_llama_cpp_is_ready_once_its_adapters_are_as_declared(machine: Machine) -> None:
    paths = [write_tiny_lora(machine.weights.parent / f"{name}.gguf") for name in ("sql", "chat")]
    adapters = [{"name": path.stem, "source": f"file:{path}", "scale": 0.3} for path in paths]
    usual = machine.entry()
    declared = Declaration.model_validate(usual.declaration.model_dump() | {"adapters": adapters})
    seen = machine.serve(usual.model_copy(update={"declaration": declared}))
    answer = httpx.get(f"{seen.address}/lora-adapters", verify=NO_TLS, trust_env=False, timeout=20)
    assert [(each["id"], each["path"]) for each in answer.json()] == [(0, str(paths[0])), (1, str(paths[1]))]


def test_nothing_listens_beyond_this_machine(machine: Machine) -> None:
    machine.serve()
    processes = machine.processes()
    assert len(processes) == 2
    listening = [
        each.laddr
        for process in processes
        for each in process.net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert len(listening) == 1, "the engine; the agent has its socket"
    assert {each.ip for each in listening} <= LOOPBACK
    sockets = {path.name: path.stat().st_mode & 0o777 for path in machine.config.directory.glob("*.sock")}
    assert sockets == {"agent.sock": 0o600}
    assert machine.config.directory.stat().st_mode & 0o777 == 0o700


def test_an_engine_that_is_killed_has_failed_at_once_and_a_higher_attempt_repairs_it(machine: Machine) -> None:
    before = machine.serve()
    revision = machine.node().revision
    assert before.pid is not None
    began = time.monotonic()
    psutil.Process(before.pid).send_signal(SIGKILL)
    seen = machine.node(since=revision, wait="10s")
    assert time.monotonic() - began < 2
    failed = (
        machine.reach(ReplicaState.FAILED) if seen.replicas[0].state is not ReplicaState.FAILED else seen.replicas[0]
    )
    assert (failed.failure, failed.ever_ready, failed.failures_in_a_row) == (KILLED_FROM_OUTSIDE, True, 1)
    machine.send(machine.entry(attempt=1))
    after = machine.reach(ReplicaState.READY)
    assert after.id == before.id
    assert after.pid != before.pid
    complete(after.address)


def test_an_agent_that_is_killed_leaves_the_engine_serving_and_the_next_one_adopts_it(machine: Machine) -> None:
    before = machine.serve()
    machine.kill_agent()
    complete(before.address)
    offline = machine.offline()
    assert not offline.agent
    assert (offline.replicas[0].state, offline.replicas[0].routable) == (ReplicaState.READY, True)
    machine.ensure()
    after = machine.one()
    assert (after.state, after.pid, after.routable) == (ReplicaState.READY, before.pid, True)
    complete(after.address)


def test_an_engine_whose_start_was_not_recorded_is_adopted(machine: Machine) -> None:
    """As if the agent was killed between the start and its record."""
    before = machine.serve()
    machine.kill_agent()
    (path,) = machine.config.directory.glob("replicas/*.json")
    path.unlink()
    machine.ensure()
    after = machine.reach(ReplicaState.READY)
    assert (after.pid, after.address, after.id) == (before.pid, before.address, before.id)


def test_a_drain_survives_the_agent(machine: Machine) -> None:
    seen = machine.serve()
    engine = psutil.Process(seen.pid)
    engine.suspend()  # a request sent now is in flight until it goes on
    with in_flight(seen.address) as answers:
        machine.send(stop_entry(seen.entry, withdraw=0, drain=60))
        assert machine.one().state is ReplicaState.DRAINING
        machine.kill_agent()
        machine.ensure()
        after = machine.one()
        assert (after.state, after.routable, after.pid) == (ReplicaState.DRAINING, False, seen.pid)
        engine.resume()
    assert len(answers[0]) > 0, "the request was answered, not cut"
    wait_until(lambda: machine.node().replicas == ())


def test_a_second_agent_on_one_state_directory_refuses(machine: Machine) -> None:
    machine.ensure()
    command = [sys.executable, "-m", "reconciler", "agent", "--config", str(machine.config.directory / "agent.json")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 1
    assert f"another agent (pid {machine.agent.pid}) runs" in second.stderr
    assert machine.request("GET", "/v1/health").status_code == 200


def test_claims_fence_assignments_over_the_socket(machine: Machine) -> None:
    machine.ensure()
    machine.send()
    first = machine.epoch
    refused = machine.claim("apply-2")
    assert Refusal.model_validate_json(refused.content).reason == "held"
    machine.request("POST", "/v1/release", json={"holder": "apply-1", "epoch": first})
    assert machine.claim("apply-2").json()["epoch"] == first + 1
    late = assignment(machine.entry(), epoch=first, generation=99).model_dump(mode="json")
    answer = machine.request("PUT", "/v1/assignment", json=late)
    assert answer.status_code == 409
    assert Refusal.model_validate_json(answer.content).reason == "stale"
    assert machine.node().replicas == ()


def test_a_model_file_that_is_none_fails_with_the_engines_own_words(machine: Machine) -> None:
    machine.ensure()
    machine.weights.write_bytes(b"no model")
    machine.send(machine.entry())
    failed = machine.reach(ReplicaState.FAILED)
    assert failed.failure
    assert not failed.ever_ready
    assert [each.pid for each in machine.processes()] == [machine.agent.pid]


@contextmanager
def in_flight(address: str | None) -> Iterator[list[str]]:
    """A completion that was asked for before the block, and whose answer is there after it."""
    answers: list[str] = []
    client = threading.Thread(target=lambda: answers.append(complete(address)))
    client.start()
    try:
        yield answers
    finally:
        client.join()
