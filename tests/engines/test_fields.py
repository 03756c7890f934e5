"""Every field of a profile, for every engine: it reaches what runs, or the gate refuses it with a reason.

`TAKEN` holds a value for each field that differs from what the plain profile has; where an engine needs other words,
`IN_ITS_WORDS` has them. A field that is new in the schema fails here until somebody decides it for each engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.agent.config import AgentConfig
from reconciler.agent.launch_files import launch_directory
from reconciler.agent.launching import locate_weights, prepare
from reconciler.domain.assignment import RunEntry
from reconciler.domain.flag_tables import flag_table
from reconciler.domain.model_spec import Engine, ModelSpec, Profile
from reconciler.domain.placement import PlacedGpu, Placement, Shard, replica_id
from reconciler.engines.base import Vendor
from reconciler.engines.fields import NOT_TAKEN, VENDORS, not_taken
from reconciler.engines.registry import support
from reconciler.gate.adapters import NO_ADAPTERS
from reconciler.gate.not_taken import TASKS
from reconciler.placement.demand import demands
from tests.agent.entries import NODE
from tests.engines import conformance
from tests.gate.fleet import COMMIT, SOURCE, a_fleet, a_node, found

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.finding import Finding
    from reconciler.placement.demand import Demand

ON_CPUS = (Engine.VLLM, Engine.LLAMACPP)
PLAIN = {"gpu_class": "h100-80gb", "gpus": 1}
CPU = {"memory_gib": 32.0, "cpu_cores": 4}

TAKEN: dict[str, Any] = {
    "source": f"hf:org/other@{COMMIT}",
    "gpu_class": "mi300x",
    "gpus": 2,
    "nodes": 2,
    "pipeline_parallel": 2,
    "data_parallel": 2,
    "expert_parallel": True,
    "memory_share": 0.5,
    "dtype": "float16",
    "quantization": "fp8",
    "max_concurrency": 7,
    "mmproj": f"hf:org/llama@{COMMIT}#mmproj.gguf",
    "memory_gib": 64.0,
    "cpu_cores": 8,
    "select": {"zone": "a"},
    "args": ("--some-flag",),
    "env": {"SOME_VARIABLE": "text"},
}
IN_ITS_WORDS: dict[str, dict[Engine, Any]] = {
    "engine": {each: Engine.VLLM if each is not Engine.VLLM else Engine.SGLANG for each in Engine},
    "version": {
        Engine.VLLM: "0.17.0",
        Engine.SGLANG: "0.5.3",
        Engine.TRTLLM: "1.2.1",
        Engine.LLAMACPP: "10229",
        Engine.COMFYUI: "0.3.0",
    },
    "kv_cache_dtype": {
        Engine.VLLM: "fp8",
        Engine.SGLANG: "fp8_e5m2",
        Engine.TRTLLM: "fp8",
        Engine.LLAMACPP: "q8_0",
        Engine.COMFYUI: "fp8",
    },
}
NAME_ONLY = frozenset({"name"})
"""Tells the profiles of a model apart for people; nothing of it reaches what runs (design section 3)."""
FLAGS_ONLY = frozenset({("version", Engine.LLAMACPP)})
"""llama.cpp is launched alike in every build and compiles no kernels: its version says which flags the gate knows."""
REFUSED_ON_CPUS = frozenset({"gpus", "memory_share"})
"""Without a gpu_class these are refused whatever the engine: inventory/cpu-profile, yaml/unknown-field."""

OF_THE_MODEL: dict[str, Any] = {
    "source": f"hf:org/other@{COMMIT}",
    "context": 8192,
    "aliases": ("other-name",),
    "adapters": ({"name": "sql", "source": f"hf:org/sql@{COMMIT}"},),
}
"""Fields of a model that are there for its engine; its task is held by `test_conformance`."""
FOR_ROUTERS = {
    ("aliases", Engine.SGLANG): "it lists one name and answers under any",
    ("aliases", Engine.TRTLLM): "it lists one name and answers under any",
    ("aliases", Engine.COMFYUI): "its API has no names of models",
    ("context", Engine.COMFYUI): "it counts no tokens: the length is for whoever sends requests",
}
"""Of a model's fields these reach no process of the engine."""

CARDS = {"h100-80gb": Vendor.NVIDIA, "mi300x": Vendor.AMD, "gaudi3": Vendor.INTEL}
"""A class of each maker."""

PAIRS = [(field, engine) for field in Profile.model_fields for engine in Engine]


@dataclass(frozen=True)
class Reached:
    """All of a profile that anything outside the tree sees."""

    argv: tuple[str, ...]
    env: dict[str, str]
    files: dict[str, str]
    weights: tuple[str, ...]
    """Files that must be on the node."""
    placed: tuple[Any, ...]
    """What placement asks of nodes."""


def value(field: str, engine: Engine) -> Any:
    return IN_ITS_WORDS[field][engine] if field in IN_ITS_WORDS else TAKEN[field]


def a_model(engine: Engine, fields: dict[str, Any]) -> ModelSpec:
    profile = {"name": "one", "engine": engine, **fields}
    task = "image" if profile["engine"] is Engine.COMFYUI else "generate"
    written = {"name": "m", "source": SOURCE, "context": 4096, "task": task, "profiles": [profile]}
    return ModelSpec.model_validate(written)


def reached(directory: Path, model: ModelSpec) -> Reached:
    """What an agent would start of it, by the code that it runs, and what the planner would look for."""
    (demand,) = demands(a_fleet([model]), model)
    declaration, engine = demand.declaration, support(demand.declaration.engine)
    assert engine is not None
    entry = an_entry(demand)
    config = AgentConfig(node=NODE, listen="unix:/nowhere", state_dir=directory)
    named: list[str] = []

    def locate(source: str) -> Path:
        named.append(source)
        return directory / source.replace("/", "_")

    weights = locate_weights(entry, locate)
    specification = prepare(
        entry, config, engine, ("program",), weights, port=20_000, log=directory / "log", environment={}
    ).spec
    kept = launch_directory(config.directory, entry.id)
    text = {path.name: path.read_text("utf-8") for path in kept.iterdir()}
    asked = (
        *(demand.gpu_class, demand.gpus, demand.nodes, demand.memory_gib, demand.cpu_cores),
        tuple((demand.profile.select or {}).items()),
    )
    # its own directory's name is its id, which has the digest of everything in it
    argv = tuple(word.replace(str(kept), "OWN") for word in specification.argv)
    env = {name: text.replace(str(kept), "OWN") for name, text in specification.env.items()}
    assert declaration.launch_digest() == demand.digest
    return Reached(argv, env, text, tuple(named), asked)


def an_entry(demand: Demand) -> RunEntry:
    count = range(demand.gpus)
    shards = tuple(
        Shard(node=name, gpus=tuple(PlacedGpu(uuid=f"GPU-{index}", index=index) for index in count))
        for name in (NODE, "there")[: demand.nodes]
    )
    identity = replica_id("m", 0, demand.digest, None, None, shards)
    return RunEntry(
        id=identity,
        fleet="test",
        model="m",
        ordinal=0,
        placement=Placement(id=identity, shards=shards),
        declaration=demand.declaration,
        digest=demand.digest,
        ready_timeout=timedelta(minutes=30),
        addresses=("10.0.0.1", "10.0.0.2") if demand.nodes > 1 else (),
        port=22_000 if demand.nodes > 1 else None,
    )


def test_the_gate_lets_those_tasks_pass_that_an_engine_is_asked_for() -> None:
    assert {engine: set(tasks) for engine, tasks in conformance.TASKS.items()} == dict(TASKS)


def told_at(model: ModelSpec, field: str) -> list[Finding]:
    """Errors of the gate that speak of this field."""
    nodes = [a_node("here"), a_node("there"), a_node("amd", "mi300x")]
    return [each for each in found([model], nodes) if each.severity == "error" and field in each.message]


@pytest.mark.parametrize(("field", "engine"), PAIRS)
def test_a_field_reaches_what_runs_or_is_refused_with_the_reason(tmp_path: Path, field: str, engine: Engine) -> None:
    if field in NAME_ONLY:
        return
    changed = a_model(engine, PLAIN | {field: value(field, engine)})
    because = not_taken(engine, field)
    if because is not None:
        word = "projector" if field == "mmproj" else field
        told = told_at(changed, word)
        assert told, f"{engine} has no use for {field}, and the gate says nothing"
        assert any(because in each.message for each in told) or field == "nodes", told
        return
    before, after = (reached(tmp_path / name, model) for name, model in (("a", a_model(engine, PLAIN)), ("b", changed)))
    if (field, engine) in FLAGS_ONLY:
        assert flag_table(engine, value(field, engine)) != flag_table(engine, None)
        return
    differs = [part for part in Reached.__annotations__ if shown(before, part) != shown(after, part)]
    assert differs, f"{engine} takes {field}, and nothing that runs or is placed differs"


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize(("gpu_class", "vendor"), CARDS.items())
def test_gpus_of_each_maker_are_launched_on_or_refused_with_the_engines_that_are(
    engine: Engine, gpu_class: str, vendor: Vendor
) -> None:
    model = a_model(engine, {"gpu_class": gpu_class, "gpus": 1})
    told = [each for each in found([model], [a_node("here", gpu_class)]) if "runs on GPUs of" in each.message]
    assert bool(told) is (vendor not in VENDORS[engine])
    for each in told:
        others = re.findall(r"vllm|sglang|trtllm|llamacpp|comfyui", each.hint or "")
        assert (each.rule, each.severity) == ("inventory/unsupported", "error")
        assert all(vendor in VENDORS[Engine(name)] for name in others)
        assert others or engine is Engine.COMFYUI, "no other engine draws pictures"


@pytest.mark.parametrize("engine", Engine)
@pytest.mark.parametrize("field", OF_THE_MODEL)
def test_a_field_of_the_model_too(tmp_path: Path, field: str, engine: Engine) -> None:
    plain = a_model(engine, PLAIN)
    changed = ModelSpec.model_validate(
        plain.model_dump(by_alias=True, exclude_unset=True) | {field: OF_THE_MODEL[field]}
    )
    if field == "adapters" and engine in NO_ADAPTERS:
        assert told_at(changed, NO_ADAPTERS[engine])
        return
    before, after = reached(tmp_path / "a", plain), reached(tmp_path / "b", changed)
    differs = [part for part in Reached.__annotations__ if shown(before, part) != shown(after, part)]
    assert bool(differs) is ((field, engine) not in FOR_ROUTERS)


@pytest.mark.parametrize("engine", ON_CPUS)
@pytest.mark.parametrize("field", [each for each in Profile.model_fields if each not in NAME_ONLY])
def test_on_cpus_too(tmp_path: Path, field: str, engine: Engine) -> None:
    if not_taken(engine, field) is not None or field in REFUSED_ON_CPUS or (field, engine) in FLAGS_ONLY:
        return
    further = CPU | {field: value(field, engine)} | (PLAIN if field in {"gpu_class", "engine"} else {})
    if field == "gpu_class":
        further[field] = value(field, engine)
    before, after = (reached(tmp_path / name, a_model(engine, fields)) for name, fields in (("a", CPU), ("b", further)))
    assert [part for part in Reached.__annotations__ if shown(before, part) != shown(after, part)], field


def shown(seen: Reached, part: str) -> str:
    """One part as text, without the directory of the test."""
    return repr(getattr(seen, part)).replace("/a/", "/X/").replace("/b/", "/X/")


def test_what_is_refused_is_a_field_of_the_schema_and_each_reason_is_the_end_of_a_sentence() -> None:
    assert NOT_TAKEN.keys() <= Profile.model_fields.keys()
    for reasons in NOT_TAKEN.values():
        assert reasons, "an engine that takes it needs no row"
        for because in reasons.values():
            assert not because.endswith(".")
            assert len(because.split()) > 3
