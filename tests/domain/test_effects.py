"""The field-effect table is complete, and what it says of each field is what the launch digest does."""

from __future__ import annotations

import copy
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from reconciler.domain.effects import FLEET_EFFECTS, MODEL_EFFECTS, POOL_EFFECTS, Effect
from reconciler.domain.fleet_spec import FleetSpec, PoolSpec
from reconciler.domain.model_spec import ModelSpec
from reconciler.domain.placement import PlacedGpu, Shard, replica_id
from tests.domain.catalog import CPU_MODEL, SOURCE, declared

REVISION = "hf:org/llama@0000000000000000000000000000000000000000"

FULL_MODEL: dict[str, Any] = {
    "name": "llama-70b",
    "source": SOURCE,
    "context": 32768,
    "aliases": ["chat"],
    "profiles": [
        {
            "name": "h100",
            "engine": "vllm",
            "gpu_class": "h100-80gb",
            "gpus": 4,
            "env": {"HF_TOKEN": {"secret": "hub-token"}, "LEVEL": "info"},
            "args": ["--enable-prefix-caching"],
            "select": {"rack": "r1"},
        }
    ],
    "adapters": [{"name": "sql", "source": SOURCE}],
    "scaling": {"min": 2},
    "rollout": {"strategy": "surge"},
    "restart": "monday",
}

CHANGES: dict[str, Any] = {
    "name": "llama-71b",
    "source": REVISION,
    "context": 16384,
    "aliases": ["chat", "talk"],
    "task": "embed",
    "class": "critical",
    "scaling.min": 3,
    "scaling.max": 9,
    "scaling.idle_timeout": "5m",
    "scaling.target": 4.0,
    "adapters.name": "sequel",
    "adapters.source": REVISION,
    "adapters.scale": 0.5,
    "fallbacks": ["qwen-32b"],
    "rollout.strategy": "in_place",
    "rollout.max_surge": 2,
    "rollout.max_unavailable": 2,
    "rollout.min_ready": "1s",
    "rollout.ready_timeout": "1h",
    "rollout.drain_timeout": "1h",
    "rollout.withdraw_delay": "1s",
    "rollout.bake": "1h",
    "max_output": 512,
    "owner": "search",
    "protect": True,
    "suspend": True,
    "restart": "tuesday",
    "moved": "llama",
    "unverified": True,
    "profiles.name": "big",
    "profiles.engine": "sglang",
    "profiles.version": "0.31.0",
    "profiles.source": REVISION,
    "profiles.gpu_class": "h200",
    "profiles.gpus": 8,
    "profiles.nodes": 2,
    "profiles.pipeline_parallel": 2,
    "profiles.data_parallel": 2,
    "profiles.expert_parallel": True,
    "profiles.memory_share": 0.8,
    "profiles.kv_cache_dtype": "fp8",
    "profiles.dtype": "float16",
    "profiles.quantization": "fp8",
    "profiles.max_concurrency": 64,
    "profiles.mmproj": REVISION,
    "profiles.memory_gib": 32.0,
    "profiles.cpu_cores": 16,
    "profiles.select": {"rack": "r2"},
    "profiles.args": [],
    "profiles.env": {"HF_TOKEN": {"secret": "hub-token"}, "LEVEL": "debug"},
    "profiles.env.HF_TOKEN.secret": "other-token",
}
"""One change of each field of a model, by its place in FULL_MODEL."""

ON_CPUS = frozenset({"profiles.memory_gib", "profiles.cpu_cores"})
"""Fields that are a restart on CPUs and a reservation on GPUs."""


def schema_path(place: str) -> str:
    """A place in FULL_MODEL as the table writes it: without the names of variables."""
    return place.replace("env.HF_TOKEN.", "env.")


def changed(model: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    copied = copy.deepcopy(model)
    inner: Any = copied
    *steps, last = place.split(".")
    for step in steps:
        inner = inner.setdefault(step, {})
        inner = inner[0] if isinstance(inner, list) else inner
    assert inner.get(last) != value, f"{place} is not changed by its sample"
    inner[last] = value
    return copied


def paths(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Every field of a model and of the models inside it, dotted, as YAML writes it."""
    found = set()
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        found.add(path)
        for inner in models_in(field.annotation):
            found |= paths(inner, f"{path}.")
    return found


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def leaves(effects: Any) -> list[str]:
    """Fields that hold values themselves, and not only other fields."""
    return [
        path for path in effects if path == "profiles.env" or not any(other.startswith(f"{path}.") for other in effects)
    ]


@pytest.mark.parametrize(
    ("spec", "effects"), [(ModelSpec, MODEL_EFFECTS), (FleetSpec, FLEET_EFFECTS), (PoolSpec, POOL_EFFECTS)]
)
def test_every_schema_field_stands_in_the_table_and_nothing_else_does(
    spec: type[BaseModel], effects: dict[str, Effect]
) -> None:
    assert paths(spec) == set(effects)


def test_every_field_of_a_model_has_a_sample_change() -> None:
    nothing_is_launched = {"external.url", "external.model", "external.api_key_env"}

    assert {schema_path(place) for place in CHANGES} == set(leaves(MODEL_EFFECTS)) - nothing_is_launched


@pytest.mark.parametrize("place", CHANGES)
def test_the_digest_differs_just_where_the_table_says_restart(place: str) -> None:
    effect = MODEL_EFFECTS[schema_path(place)]
    base = CPU_MODEL if place in ON_CPUS else FULL_MODEL
    differs = declared(changed(base, place, CHANGES[place])).launch_digest() != declared(base).launch_digest()

    # The restart token works through the replica's id; see the next test.
    assert differs == (effect is Effect.RESTART and place != "restart"), f"{place} is marked {effect}"


def test_a_restart_token_and_a_restart_intent_change_the_replicas_id() -> None:
    shards = [Shard(node="gpu-01", gpus=(PlacedGpu(uuid="GPU-1", index=0),))]
    digest = declared(FULL_MODEL).launch_digest()
    ids = {
        replica_id("llama-70b", 0, digest, token, intent, shards)
        for token, intent in [(None, None), ("monday", None), ("tuesday", None), (None, "monday")]
    }

    assert MODEL_EFFECTS["restart"] is Effect.RESTART
    assert len(ids) == 4


@pytest.mark.parametrize("place", sorted(ON_CPUS))
def test_a_reservation_of_a_profile_on_gpus_restarts_nothing(place: str) -> None:
    assert declared(changed(FULL_MODEL, place, CHANGES[place])).launch_digest() == declared(FULL_MODEL).launch_digest()


@pytest.mark.parametrize("effects", [MODEL_EFFECTS, FLEET_EFFECTS, POOL_EFFECTS])
def test_a_field_that_holds_fields_has_the_strongest_effect_among_them(effects: dict[str, Effect]) -> None:
    weakest_first = [Effect.NONE, Effect.LIVE, Effect.REPLACE, Effect.RESTART]
    # `defaults` itself does nothing: an engine version in it reaches only profiles that name none.
    for path in set(effects) - set(leaves(effects)) - {"defaults"}:
        inside = [effect for other, effect in effects.items() if other.startswith(f"{path}.")]
        assert effects[path] == max(inside, key=weakest_first.index), path


@pytest.mark.parametrize(
    ("fleet", "restarts"),
    [
        ({"defaults": {"engine_versions": {"vllm": "0.32.0"}}}, True),
        ({"defaults": {"engine_versions": {"sglang": "0.5.23"}}}, False),
        ({"defaults": {"rollout": {"bake": "1h"}, "idle_timeout": "5m"}}, False),
        ({"limits": {"models_removed": 3}, "allow_empty": True}, False),
        ({"gpu_classes": {"h100-80gb": {"memory_mib": 80000, "engine_mib": 79000}}}, False),
        ({"name": "other"}, False),
    ],
)
def test_of_the_fleets_fields_only_an_engine_version_that_is_used_restarts(
    fleet: dict[str, Any], restarts: bool
) -> None:
    assert (declared(FULL_MODEL, fleet).launch_digest() != declared(FULL_MODEL).launch_digest()) == restarts
