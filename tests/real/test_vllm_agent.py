"""What `cluster/` cannot say, or the gate refuses: vLLM's CPU build by declarations made by hand, through a real agent.

On CPUs a profile has no GPUs and so no tensor parallelism; an agent takes either. And an engine's own refusals are for
what got past the gate: a model it was told not to verify, a number it does not know.
"""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from reconciler.agent.config import AgentConfig
from reconciler.agent.local import socket_path
from reconciler.domain.assignment import RunEntry
from reconciler.domain.declaration import Declaration
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import Placement, Shard, replica_id
from reconciler.engines.base import Site
from reconciler.engines.vllm import Vllm
from tests.agent.entries import NODE
from tests.agent.machine import Machine
from tests.agent.waiting import wait_until
from tests.real.clients import complete
from tests.real.machine import STARTS_WITHIN, VLLM, output, tell, timed
from tests.tiny_llama import write_tiny_llama

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(VLLM is None, reason="RECONCILER_VLLM_PYTHON names no Python with vLLM"),
]

TRAINED = 131_072


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """An agent that may start vLLM and nothing else."""
    made = Machine(tmp_path / "state", write_tiny_llama(tmp_path / "weights", context=TRAINED))
    made.config = AgentConfig(
        node=NODE,
        listen=f"unix:{socket_path(made.state)}",
        state_dir=made.state,
        cpu_cores=4,
        memory_gib=16,
        engines={Engine.VLLM: (str(VLLM),)},
    )
    yield made
    assert made.clear() == [], "something is left"


def declaration(weights: Path, **fields: Any) -> Declaration:
    usual = {"model": "tiny", "engine": "vllm", "source": f"file:{weights}", "context": 2048, "memory_gib": 3}
    rest = {"cpu_cores": 2, "max_concurrency": 4, "args": ("--enforce-eager",)}
    return Declaration.model_validate(usual | rest | fields)


def entry(declared: Declaration) -> RunEntry:
    """One replica on CPUs."""
    shards = (Shard(node=NODE),)
    identity = replica_id(declared.model, 0, declared.launch_digest(), None, None, shards)
    return RunEntry(
        id=identity,
        fleet="test",
        model=declared.model,
        ordinal=0,
        placement=Placement(id=identity, shards=shards),
        declaration=declared,
        digest=declared.launch_digest(),
        ready_timeout=timedelta(seconds=STARTS_WITHIN),
    )


def test_two_ranks_share_each_matrix(machine: Machine) -> None:
    machine.ensure()
    machine.send(entry(declaration(machine.weights, gpus=2, memory_gib=4.5)))
    with timed("vLLM: tensor parallel 2 until ready"):
        seen = machine.reach(ReplicaState.READY, STARTS_WITHIN)
    assert seen.address is not None
    names = [each.name() for each in psutil.Process(seen.pid).children(recursive=True)]
    assert len([name for name in names if "Worker" in name]) == 2, names
    assert len(complete(seen.address)) > 0


def test_what_it_refuses_is_one_sentence(machine: Machine, tmp_path: Path) -> None:
    """All at once: each takes ten seconds of a core to say no."""
    bare = tmp_path / "bare"
    write_tiny_llama(bare)
    (bare / "model.safetensors").unlink()
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "heads": ({"gpus": 3}, "8 attention heads do not split over 3 GPUs"),
        "context": (
            {"context": 2 * TRAINED},
            f"a context of {2 * TRAINED} tokens is beyond the {TRAINED} that the model was trained for",
        ),
        "pool": (
            {"context": TRAINED, "args": ("--enforce-eager", "--kv-cache-memory-bytes", "16M")},
            f"the KV cache is too small: one request of {TRAINED} tokens needs 0.12 GiB and 0.02 GiB are left for it",
        ),
        "flag": ({"args": ("--no-such-flag",)}, "vLLM does not know the arguments --no-such-flag"),
        "value": ({"args": ("--block-size", "few")}, "vLLM refuses the value of --block-size: "),
        "weights": ({"source": f"file:{bare}"}, f"the weights are missing: {bare} holds none"),
        "nowhere": ({"source": f"file:{tmp_path / 'nowhere'}"}, str(tmp_path / "nowhere")),
    }
    machine.ensure()
    machine.send(*(entry(declaration(machine.weights, model=name, **fields)) for name, (fields, _) in cases.items()))
    with timed(f"vLLM: {len(cases)} refusals at once"):
        wait_until(
            lambda: all(each.state is ReplicaState.FAILED for each in machine.node().replicas), 2 * STARTS_WITHIN
        )
    said = {each.entry.model: each.failure or "" for each in machine.node().replicas}
    for name, sentence in said.items():
        tell(f"vLLM: {name}: {sentence}")
    assert {name: sentence for name, sentence in said.items() if cases[name][1] not in sentence} == {}


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """An agent looks before it launches: so the program by itself, on a port that is taken."""
    weights = write_tiny_llama(tmp_path / "weights")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        launch = Vllm().launch(declaration(weights), Site("127.0.0.1", port, str(weights)))
        said = Vllm().read_failure(output((str(VLLM),), launch, tmp_path, STARTS_WITHIN))
    tell(f"vLLM: port in use: {said}")
    assert said is not None
    assert "in use" in said or "taken" in said, said
