"""The launch digest: equal where nothing needs a restart, different where something does, the same for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.declaration import Declaration
from reconciler.domain.model_spec import ModelSpec
from tests.conftest import compare
from tests.domain.catalog import CPU_MODEL, GPU_MODEL, SOURCE, a_model, declared, digest, with_profile

if TYPE_CHECKING:
    from collections.abc import Mapping

GOLDEN = Path(__file__).parent / "golden" / "launch_digests.json"

names = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)


def test_launch_digests_are_what_they_have_always_been(rewrite: bool) -> None:
    """A digest that changes here restarts every such replica of every fleet on the day it upgrades (promise 8).

    A new field must not change any: it stays out of a digest until somebody sets it.
    Rewrite this file only with a new case, never to accept another digest of an old one.
    """
    cases = json.loads(GOLDEN.read_text("utf-8"))
    for case in cases:
        case["digest"] = digest(case["model"], case["fleet"])
    assert len({case["digest"] for case in cases}) == len(cases) >= 12
    compare(GOLDEN, json.dumps(cases, indent=2, ensure_ascii=False) + "\n", rewrite=rewrite)


@given(
    st.lists(names, unique=True, max_size=5).flatmap(lambda found: st.tuples(st.just(found), st.permutations(found)))
)
def test_the_order_of_aliases_means_nothing(orders: tuple[list[str], list[str]]) -> None:
    written, shuffled = orders

    assert digest(a_model(aliases=written)) == digest(a_model(aliases=shuffled))


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), st.text(), max_size=5), st.randoms())
def test_the_order_of_env_means_nothing(env: dict[str, str], random: Any) -> None:
    pairs = list(env.items())
    random.shuffle(pairs)

    assert digest(with_profile(env=env)) == digest(with_profile(env=dict(pairs)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpus", 1),
        ("nodes", 1),
        ("pipeline_parallel", 1),
        ("data_parallel", 1),
        ("expert_parallel", False),
        ("args", []),
        ("env", {}),
    ],
)
def test_a_profile_default_that_is_written_out_changes_nothing(name: str, value: Any) -> None:
    assert digest(with_profile(**{name: value})) == digest(GPU_MODEL)


@pytest.mark.parametrize(
    ("name", "value"), [("task", "generate"), ("aliases", []), ("adapters", []), ("suspend", False)]
)
def test_a_model_default_that_is_written_out_changes_nothing(name: str, value: object) -> None:
    assert digest(a_model(**{name: value})) == digest(GPU_MODEL)


def test_the_fleets_engine_version_is_the_same_as_writing_it_in_the_profile() -> None:
    fleet = {"defaults": {"engine_versions": {"vllm": "0.32.0"}}}

    assert digest(GPU_MODEL, fleet) == digest(with_profile(version="0.32.0"))
    assert digest(with_profile(version="0.31.0"), fleet) == digest(with_profile(version="0.31.0"))


def test_a_profiles_own_source_is_what_it_runs() -> None:
    other = "hf:org/llama-fp8@1111111111111111111111111111111111111111"

    assert declared(with_profile(source=other)).source == other
    assert digest(with_profile(source=SOURCE)) == digest(GPU_MODEL)


def test_the_order_of_args_means_something() -> None:
    assert digest(with_profile(args=["--a", "--b"])) != digest(with_profile(args=["--b", "--a"]))


def test_a_secret_is_in_it_by_name() -> None:
    one = declared(with_profile(env={"HF_TOKEN": {"secret": "hub-token"}}))

    assert one.declared()["env"] == {"HF_TOKEN": {"secret": "hub-token"}}
    assert digest(with_profile(env={"HF_TOKEN": {"secret": "other"}})) != one.launch_digest()


def test_a_cpu_profile_has_no_gpus_and_its_memory_and_cores_reach_the_engine() -> None:
    one = declared(CPU_MODEL)

    assert (one.gpu_class, one.gpus, one.memory_gib, one.cpu_cores) == (None, 0, 16.0, 8)


def test_on_gpus_memory_and_cores_are_a_reservation() -> None:
    one = declared(with_profile(memory_gib=64.0, cpu_cores=8))

    assert (one.memory_gib, one.cpu_cores) == (None, None)
    assert one.launch_digest() == digest(GPU_MODEL)


@pytest.mark.parametrize("model", [GPU_MODEL, CPU_MODEL, a_model(aliases=["b", "a"], task="embed")])
def test_a_declaration_survives_the_wire(model: Mapping[str, Any]) -> None:
    one = declared(dict(model))
    read_back = Declaration.model_validate_json(one.model_dump_json())

    assert read_back == one
    assert read_back.launch_digest() == one.launch_digest()
    assert Declaration.model_validate(one.declared()) == one


def test_whole_numbers_of_gib_are_one_number_however_written() -> None:
    assert digest(with_profile(CPU_MODEL, memory_gib=16)) == digest(with_profile(CPU_MODEL, memory_gib=16.0))


def test_an_external_model_launches_nothing() -> None:
    model = ModelSpec.model_validate(
        {"name": "gpt", "external": {"url": "https://api.example/v1"}, "scaling": {"min": 3}}
    )

    assert (model.kind, model.replicas, model.profiles) == ("external", 0, ())
