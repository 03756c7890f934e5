"""vLLM itself, on CPUs, through a real agent: for the Python in RECONCILER_VLLM_PYTHON, a minute on an idle machine.

What only the real program shows: that a key in its environment is asked for and given, that adapters come and go while
it serves, and that it outlives its agent. What kills it, and how it stops, is in `tests/real`.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from reconciler.agent.config import AgentConfig
from reconciler.agent.local import socket_path
from reconciler.domain.assignment import RunEntry
from reconciler.domain.declaration import Declaration
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import Placement, Shard, replica_id
from reconciler.engines import openai_answers
from reconciler.engines.base import Answer, Probe
from reconciler.engines.vllm import Vllm
from tests.agent.entries import NODE, stop_entry
from tests.agent.machine import NO_TLS, Machine
from tests.agent.waiting import wait_until
from tests.tiny_llama import write_tiny_adapter, write_tiny_llama

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON = os.environ.get("RECONCILER_VLLM_PYTHON")
pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif(PYTHON is None, reason="RECONCILER_VLLM_PYTHON names no Python with vLLM"),
]

KEY = "k-s3cr3t-0815"
STARTS_WITHIN = 480.0
"""Seconds: 25 on an idle machine of two cores, and four minutes where twenty others want to run."""


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
    write_tiny_llama(made.weights)
    made.config.secrets.mkdir(parents=True)
    (made.config.secrets / "key").write_text(f"{KEY}\n")
    yield made
    assert made.clear() == [], "something is left"


def entry(machine: Machine, **fields: Any) -> RunEntry:
    """One replica of the tiny model on one core; eager, because it is compiled for half a minute otherwise."""
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
        ready_timeout=timedelta(seconds=STARTS_WITHIN),
    )


def test_it_asks_for_its_key_takes_adapters_live_and_outlives_its_agent(machine: Machine, tmp_path: Path) -> None:
    """Three adapters with one slot, and one that is none: it is said, and what serves goes on serving."""
    sources = {name: write_tiny_adapter(tmp_path / name) for name in ("sql", "code", "talk")}
    sources["broken"] = tmp_path / "broken"
    sources["broken"].mkdir()
    engine = Vllm()

    def wanting(*names: str) -> RunEntry:
        adapters = [{"name": name, "source": f"file:{sources[name]}"} for name in names]
        return entry(machine, adapters=adapters, env={"VLLM_API_KEY": {"secret": "key"}})

    def ask(probe: Probe, key: str | None = KEY) -> Answer:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        with httpx.Client(verify=NO_TLS, trust_env=False, timeout=60) as client:
            answer = client.request(probe.method, f"{seen.address}{probe.path}", json=probe.body, headers=headers)
        return Answer(answer.status_code, answer.content)

    def has(*names: str) -> bool:
        found = machine.one()
        return [each.name for each in found.adapters or ()] == list(names) and found.pid == seen.pid

    first = wanting("sql")
    machine.ensure()
    machine.send(first)
    seen = machine.reach(ReplicaState.READY, STARTS_WITHIN)
    assert has("sql")
    for probe in (engine.readiness(first.declaration)[-1], load(engine, first, "later", sources["code"])):
        assert ask(probe, key=None).status == 401
        assert ask(probe).status == 200
    for wanted in (("sql", "code", "talk"), ("talk",), ("talk", "sql")):
        told = wanting(*wanted)
        assert told.id == first.id
        machine.send(told)
        wait_until(partial(has, *wanted), 60)
        assert engine.read_adapters(ask(openai_answers.MODELS)) == frozenset(wanted)
        for name in wanted:
            body = {"model": name, "prompt": "a", "max_tokens": 1}
            assert ask(Probe("POST", "/v1/completions", body)).status == 200
    machine.send(wanting("talk", "sql", "broken"))
    wait_until(lambda: machine.one().adapter_failure is not None, 60)
    assert (machine.one().adapter_failure or "").startswith("the adapter broken cannot be loaded: ")
    assert has("talk", "sql")

    wait_until(lambda: machine.one().running == 0)
    machine.kill_agent()
    machine.ensure()
    kept = machine.one()
    assert (kept.pid, kept.state, kept.routable) == (seen.pid, ReplicaState.READY, True)
    written = [path for path in machine.state.rglob("*") if path.is_file() and path.parent != machine.config.secrets]
    holding = [path for path in written if KEY.encode() in path.read_bytes()]
    assert [path.name for path in holding] == ["engine-keys.json"], "with which the next agent asks the same engine"
    assert not any(path.stat().st_mode & 0o077 for path in holding)
    machine.send(stop_entry(first, withdraw=0.5, drain=20))
    wait_until(lambda: machine.node().replicas == (), 60)


def load(engine: Vllm, run: RunEntry, name: str, path: Path) -> Probe:
    """The request that loads an adapter."""
    probe = engine.load_adapter(run.declaration, name, str(path))
    assert probe is not None
    return probe
