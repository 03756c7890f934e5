"""The published schemas: current, valid, and of one mind with what the loader takes."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from ruamel.yaml import YAML

from reconciler.domain.effects import MODEL_EFFECTS
from reconciler.domain.lock import Lock
from reconciler.views.schemas import schema, schema_text, schemas
from tests.conftest import compare

PUBLISHED = Path(__file__).parent.parent.parent / "schemas"
NAMES = ("cluster", "pool", "model", "lock", "validate", "fit", "plan", "status", "why")

POOL = """
pool: h100
gpus: {class: h100-80gb, count: 8}
memory_gib: 1024
cpu_cores: 96
address: https://{node}.gpu.internal:7443
nodes:
  - gpu-[01-16]
  - {name: gpu-17, gpus: {class: h100-80gb, count: 4}, drain: true}
"""

MODEL = """
name: llama-70b
source: hf:meta-llama/Llama-3.3-70B-Instruct@6f6073b423013f6a7d4d9f39144961bfbfbc386b
context: 32768
class: critical
scaling: {min: 2}
profiles:
  - name: h100
    engine: vllm
    gpu_class: h100-80gb
    gpus: 4
    memory_gib: 64
    max_concurrency: 128
    args: [--enable-prefix-caching]
adapters:
  - {name: sql, source: hf:org/sql-lora@6f6073b423013f6a7d4d9f39144961bfbfbc386b}
fallbacks: [qwen-32b]
rollout: {strategy: surge, ready_timeout: 30m}
owner: search
"""

GOOD = {
    "the pool of design section 3": ("pool", POOL),
    "the model of design section 3": ("model", MODEL),
    "groups of GPUs in a list": ("pool", "{pool: p, nodes: [{name: n, gpus: [{class: l4, count: 1, mig: 1g.10gb}]}]}"),
    "a CPU pool": ("pool", "{pool: p, nodes: [n], memory_gib: 0.5, cpu_cores: 1, labels: {a: b}, drain_gpus: [0]}"),
    "local and Unix sockets": ("pool", "{pool: p, nodes: [{name: a, address: local}, {name: b, address: 'unix:/s'}]}"),
    "as little as a fleet says": ("cluster", "{name: prod}"),
    "all that a fleet says": (
        "cluster",
        """
        name: prod
        allow_empty: true
        defaults: {engine_versions: {vllm: 0.32.0}, rollout: {bake: 1h}, idle_timeout: 5m}
        limits: {models_removed: 20%, replicas_removed: 3}
        gpu_classes: {x: {memory_mib: 2, engine_mib: 1}}
        """,
    ),
    "an external model": ("model", "{name: gpt, external: {url: 'https://api.example/v1', api_key_env: KEY}}"),
    "an external model of another name there": (
        "model",
        "{name: llama, external: {url: 'https://api.example/v1', model: meta-llama/Llama-3.3-70B:free}}",
    ),
    "a model on demand": ("model", "{name: m, source: hf:o/n, context: 1, scaling: {min: 0, max: 2, idle_timeout: 0}}"),
    "an environment": (
        "model",
        "{name: m, source: file:/a, profiles: [{name: p, engine: vllm, env: {A: b, T: {secret: s}}, select: {a: b}}]}",
    ),
    "one lock": (
        "lock",
        "{sources: [{source: hf:o/n@v, revision: v, format: gguf, later_field: 1}], format_version: '1.4'}",
    ),
}

BAD = {
    "an unknown field": ("model", "{name: m, source: hf:o/n, contxt: 1}"),
    "an unknown field of a profile": (
        "model",
        "{name: m, source: hf:o/n, profiles: [{name: p, engine: vllm, gpu: 1}]}",
    ),
    "no name": ("model", "{source: hf:o/n}"),
    "neither source nor external": ("model", "{name: m}"),
    "both source and external": ("model", "{name: m, source: hf:o/n, external: {url: 'https://a/b'}}"),
    "an external name with a space": ("model", "{name: m, external: {url: 'https://a/b', model: a b}}"),
    "a source of no form": ("model", "{name: m, source: s3://bucket}"),
    "an engine that is none": ("model", "{name: m, source: hf:o/n, profiles: [{name: p, engine: tgi}]}"),
    "text where a count belongs": ("model", "{name: m, source: hf:o/n, context: '1'}"),
    "a flag where a count belongs": ("model", "{name: m, source: hf:o/n, context: true}"),
    "no GPU": ("model", "{name: m, source: hf:o/n, profiles: [{name: p, engine: vllm, gpus: 0}]}"),
    "65 GPUs": ("model", "{name: m, source: hf:o/n, profiles: [{name: p, engine: vllm, gpus: 65}]}"),
    "text where a list belongs": ("model", "{name: m, source: hf:o/n, aliases: a b}"),
    "a name in capitals": ("model", "{name: Llama, source: hf:o/n}"),
    "a duration without unit": ("model", "{name: m, source: hf:o/n, rollout: {bake: 90}}"),
    "a duration in weeks": ("model", "{name: m, source: hf:o/n, rollout: {bake: 2w}}"),
    "a strategy that is none": ("model", "{name: m, source: hf:o/n, rollout: {strategy: blue_green}}"),
    "a field without a value": ("model", "{name: m, source: hf:o/n, owner: }"),
    "a name of a variable that is none": (
        "model",
        "{name: m, source: hf:o/n, profiles: [{name: p, engine: vllm, env: {A-B: c}}]}",
    ),
    "a pool without nodes": ("pool", "{pool: p}"),
    "a node without a name": ("pool", "{pool: p, nodes: [{drain: true}]}"),
    "too many GPUs": ("pool", "{pool: p, nodes: [n], gpus: {class: l4, count: 65}}"),
    "an address of no form": ("pool", "{pool: p, nodes: [n], address: ftp://n}"),
    "a share over all": ("cluster", "{name: prod, limits: {models_removed: 101%}}"),
    "a class without its size": ("cluster", "{name: prod, gpu_classes: {x: {memory_mib: 2}}}"),
    "a version of an engine that is none": ("cluster", "{name: prod, defaults: {engine_versions: {tgi: '1'}}}"),
    "a lock without sources": ("lock", "{format_version: '1.0'}"),
}


def read(text: str) -> Any:
    # libyaml refuses `{source: hf:a/b}`, which YAML 1.2 allows.
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize("name", NAMES)
def test_the_published_schema_is_current(name: str, rewrite: bool) -> None:
    compare(PUBLISHED / f"{name}.schema.json", schema_text(name), rewrite=rewrite)


def test_there_is_a_file_for_each_schema_and_no_other() -> None:
    assert tuple(schemas()) == NAMES
    assert {path.name for path in PUBLISHED.iterdir()} == {f"{name}.schema.json" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_and_says_what_it_is(name: str) -> None:
    one = schema(name)
    Draft202012Validator.check_schema(one)

    assert one["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert one["$id"] == f"urn:reconciler:schema:1.0:{name}"
    assert one["title"]
    assert one["description"]
    assert json.loads(schema_text(name)) == one


@pytest.mark.parametrize("name", ["cluster", "pool", "model"])
def test_each_field_people_write_is_described_and_no_other_is_taken(name: str) -> None:
    one = schema(name)
    for part in (one, *one["$defs"].values()):
        if "properties" in part:
            assert part["additionalProperties"] is False
        for field, said in part.get("properties", {}).items():
            assert "title" not in said
            assert said.get("description") or "$ref" in said, field


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_every_schema_is_described(name: str) -> None:
    one = schema(name)
    for part in (one, *one["$defs"].values()):
        for field, said in part.get("properties", {}).items():
            meant = one["$defs"].get(said.get("$ref", "").rpartition("/")[2], {})
            assert said.get("description") or meant.get("description"), field


@pytest.mark.parametrize("name", ["validate", "fit", "plan", "status"])
def test_what_commands_print_may_gain_fields_and_loses_none(name: str) -> None:
    one = schema(name)
    for part in (one, *one["$defs"].values()):
        if "properties" in part:
            assert "additionalProperties" not in part
            assert part["required"] == list(part["properties"])


@pytest.mark.parametrize(("name", "text"), GOOD.values(), ids=GOOD)
def test_good_files_are_valid(name: str, text: str) -> None:
    Draft202012Validator(schema(name)).validate(read(text))


@pytest.mark.parametrize(("name", "text"), BAD.values(), ids=BAD)
def test_bad_files_are_not(name: str, text: str) -> None:
    with pytest.raises(ValidationError):
        Draft202012Validator(schema(name)).validate(read(text))


def test_the_model_schema_has_every_field_of_the_effect_table() -> None:
    one = schema("model")
    top = {path for path in MODEL_EFFECTS if "." not in path}
    profile = {path.removeprefix("profiles.") for path in MODEL_EFFECTS if re.fullmatch(r"profiles\.[a-z_]+", path)}

    assert set(one["properties"]) == top
    assert set(one["$defs"]["Profile"]["properties"]) == profile


def test_a_schema_handed_out_can_be_changed_without_harm() -> None:
    before = copy.deepcopy(schema("model"))
    schema("model")["properties"].clear()

    assert schema("model") == before


def test_a_lock_that_its_schema_takes_is_read() -> None:
    assert Lock.model_validate(read(GOOD["one lock"][1])).sources[0].revision == "v"
