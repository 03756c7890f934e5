"""vLLM itself, on CPUs, through a real agent: for the Python in RECONCILER_VLLM_PYTHON, a minute a test.

What only the real program shows: that a key in its environment is asked for and given, that adapters come and go while
it serves, that a healthy engine may be none, that a signal can be swallowed, and what a killed server leaves behind.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from reconciler.agent.config import AgentConfig
from reconciler.agent.local import socket_path
from reconciler.domain.assignment import RunEntry
from reconciler.domain.declaration import Declaration
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import Placement, Shard, replica_id
from reconciler.engines.base import Answer
from reconciler.engines.vllm import Vllm
from tests.agent.entries import NODE, stop_entry
from tests.agent.machine import NO_TLS, Machine
from tests.agent.waiting import wait_until
from tests.tiny_llama import write_tiny_adapter, write_tiny_llama

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.engines.base import Probe

PYTHON = os.environ.get("RECONCILER_VLLM_PYTHON")
pytestmark = pytest.mark.skipif(PYTHON is None, reason="RECONCILER_VLLM_PYTHON names no Python with vLLM")

KEY = "k-s3cr3t-0815"
STARTS_WITHIN = 180.0
"""Seconds: 25 on an idle machine of two cores, twice as many on a busy one."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """An agent that may start vLLM and nothing else, and knows one secret."""
    assert PYTHON is not None
    made = Machine(tmp_path / "state", tmp_path / "weights")
    program = str(Path(PYTHON).parent / "vllm")
    made.config = AgentConfig(
        node=NODE,
        listen=f"unix:{socket_path(made.state)}",
        state_dir=made.state,
        cpu_cores=4,
        memory_gib=8,
        engines={Engine.VLLM: (program,)},
    )
    made.config.secrets.mkdir(parents=True)
    (made.config.secrets / "key").write_text(f"{KEY}\n")
    yield made
    assert made.clear() == [], "something is left"


def entry(machine: Machine, *, head_dim: int = 32, **fields: Any) -> RunEntry:
    """One replica of the tiny model on one core; eager, because it is compiled for half a minute otherwise."""
    write_tiny_llama(machine.weights, head_dim=head_dim)
    usual = {"model": "tiny", "engine": "vllm", "source": f"file:{machine.weights}", "context": 2048, "memory_gib": 3}
    rest = {"cpu_cores": 1, "max_concurrency": 4, "args": ("--enforce-eager",)}
    declaration = Declaration.model_validate(usual | rest | fields)
    shards = (Shard(node=NODE),)
    identity = replica_id("tiny", 0, declaration.launch_digest(), None, None, shards)
    return RunEntry(
        id=identity,
        fleet="test",
        model="tiny",
        ordinal=0,
        placement=Placement(id=identity, shards=shards),
        declaration=declaration,
        digest=declaration.launch_digest(),
        ready_timeout=timedelta(seconds=120),
    )


def begin(machine: Machine, run: RunEntry) -> None:
    machine.ensure()
    machine.send(run)


def test_it_serves_with_a_key_and_adapters_and_is_gone_when_it_is_told_to(machine: Machine, tmp_path: Path) -> None:
    adapter = write_tiny_adapter(tmp_path / "sql")
    adapters = [{"name": "sql", "source": f"file:{adapter}"}]
    run, engine = entry(machine, adapters=adapters, env={"VLLM_API_KEY": {"secret": "key"}}), Vllm()
    begin(machine, run)
    seen = machine.reach(ReplicaState.READY, STARTS_WITHIN)
    assert seen.address is not None

    def ask(probe: Probe | None, key: str | None = KEY) -> Answer:
        assert probe is not None
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        url = f"{seen.address}{probe.path}"
        with httpx.Client(verify=NO_TLS, trust_env=False, timeout=60) as client:
            answer = client.request(probe.method, url, json=probe.body, headers=headers)
        return Answer(answer.status_code, answer.content)

    question = engine.readiness(run.declaration)[-1]
    assert ask(question, key=None).status == 401
    assert ask(question).status == 200
    assert engine.read_adapters(ask(engine.adapters())) == frozenset({"sql"})
    assert ask(engine.load_adapter(run.declaration, "later", str(adapter))).status == 200
    assert engine.read_adapters(ask(engine.adapters())) == frozenset({"sql", "later"})
    assert ask(engine.unload_adapter(run.declaration, "later")).status == 200
    wait_until(lambda: machine.one().running == 0)
    machine.kill_agent()
    machine.ensure()
    kept = machine.one()
    assert (kept.pid, kept.state, kept.routable) == (seen.pid, ReplicaState.READY, True)
    written = [path for path in machine.state.rglob("*") if path.is_file() and path.parent != machine.config.secrets]
    assert not any(KEY.encode() in path.read_bytes() for path in written)
    machine.send(stop_entry(run, withdraw=0.5, drain=20))
    wait_until(lambda: machine.node().replicas == (), 40)


@pytest.mark.timeout(400)
def test_adapters_come_and_go_while_it_serves(machine: Machine, tmp_path: Path) -> None:
    """Three of them with one slot, and one that is too wide: it is said, and what serves goes on serving."""
    sources = {name: write_tiny_adapter(tmp_path / name) for name in ("sql", "code", "talk")}
    broken = tmp_path / "broken"
    broken.mkdir()

    def wanting(*names: str) -> RunEntry:
        paths = sources | {"broken": broken}
        return entry(machine, adapters=[{"name": name, "source": f"file:{paths[name]}"} for name in names])

    first = wanting("sql")
    begin(machine, first)
    seen = machine.reach(ReplicaState.READY, STARTS_WITHIN)
    assert [each.name for each in seen.adapters or ()] == ["sql"]

    def has(*names: str) -> bool:
        found = machine.one()
        return [each.name for each in found.adapters or ()] == list(names) and found.pid == seen.pid

    for wanted in (("sql", "code", "talk"), ("talk",), ("talk", "sql")):
        told = wanting(*wanted)
        assert told.id == first.id
        machine.send(told)
        wait_until(partial(has, *wanted), 60)
        for name in wanted:
            assert answers_as(seen.address, name)
    machine.send(wanting("talk", "sql", "broken"))
    wait_until(lambda: machine.one().adapter_failure is not None, 60)
    assert (machine.one().adapter_failure or "").startswith("the adapter broken cannot be loaded: ")
    assert has("talk", "sql")


def answers_as(address: str | None, model: str) -> bool:
    body = {"model": model, "prompt": "a", "max_tokens": 1}
    return httpx.post(f"{address}/v1/completions", json=body, timeout=60, verify=NO_TLS, trust_env=False).is_success


def test_a_healthy_engine_that_dies_of_its_first_token_is_never_ready(machine: Machine) -> None:
    begin(machine, entry(machine, head_dim=8))
    failed = machine.reach(ReplicaState.FAILED, STARTS_WITHIN)
    assert not failed.ever_ready
    assert "head_dim=8" in (failed.failure or "")


def test_it_ends_also_when_it_swallows_the_first_signal(machine: Machine) -> None:
    run = entry(machine)
    begin(machine, run)
    wait_until(lambda: machine.one().stage == "starting processes", STARTS_WITHIN)
    machine.send(stop_entry(run, withdraw=0, drain=0))
    wait_until(lambda: machine.node().replicas == (), Vllm().stop.kill_after.total_seconds() + 10)


def test_a_killed_server_leaves_no_engine_behind(machine: Machine) -> None:
    begin(machine, entry(machine))
    seen = machine.reach(ReplicaState.READY, STARTS_WITHIN)
    assert seen.pid is not None
    family = psutil.Process(seen.pid).children(recursive=True)
    assert any("EngineCore" in each.name() for each in family)
    psutil.Process(seen.pid).send_signal(SIGKILL)
    machine.reach(ReplicaState.FAILED, 20)
    wait_until(lambda: not any(each.is_running() for each in family), 20)
