"""What several fields must agree on: each disagreement with its place, and what is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.consistency import (
    Inconsistency,
    fleet_inconsistencies,
    model_inconsistencies,
    node_inconsistencies,
    pool_inconsistencies,
)
from reconciler.domain.desired import Node, Where
from reconciler.domain.fleet_spec import FleetSpec, PoolSpec
from reconciler.domain.model_spec import ModelSpec, Rollout
from tests.builders import SOURCE, a_node

PROFILE = {"name": "gpu", "engine": "vllm", "gpu_class": "l4"}
GOOD = {"name": "m", "source": SOURCE, "context": 4096, "profiles": [PROFILE]}
EXTERNAL = {"name": "m", "external": {"url": "https://example.com/v1"}}


def told(found: list[Inconsistency]) -> list[tuple[str, str, str]]:
    return [(".".join(map(str, each.path)), each.rule, each.message) for each in found]


def of_model(fleet: dict[str, Any] | None = None, **fields: Any) -> list[tuple[str, str, str]]:
    spec = {name: value for name, value in (GOOD | fields).items() if value is not None}
    return told(model_inconsistencies(ModelSpec.model_validate(spec), Rollout.model_validate(fleet or {})))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"profiles": [PROFILE | {"gpus": 2}, PROFILE | {"name": "other"}]},
        {"profiles": [{"name": "cpu", "engine": "llamacpp", "memory_gib": 4, "cpu_cores": 2}]},
        {"task": "image", "context": None},
        {"scaling": {"min": 0, "max": 0}},
        {"scaling": {"min": 0, "max": 4, "idle_timeout": "5m"}},
        {"scaling": {"min": 2, "max": 2}},
        {"moved": "other"},
        {"rollout": {"strategy": "in_place"}},
        {"rollout": {"strategy": "surge_or_in_place", "max_surge": 0}},
        {"rollout": {"max_surge": 0, "max_unavailable": 1}},
    ],
)
def test_a_model_that_agrees_with_itself(fields: dict[str, Any]) -> None:
    assert of_model(**fields) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"source": None}, ("", "yaml/type", "source is missing")),
        ({"context": None}, ("context", "yaml/type", "context is missing")),
        ({"profiles": None}, ("profiles", "yaml/type", "profiles are missing")),
        ({"profiles": []}, ("profiles", "yaml/type", "profiles are missing")),
        ({"scaling": {"min": 3, "max": 1}}, ("scaling.max", "yaml/type", "scaling.max is 1, below scaling.min 3")),
        ({"scaling": {"max": 0}}, ("scaling.max", "yaml/type", "scaling.max is 0, below scaling.min 1")),
        (
            {"profiles": [PROFILE, PROFILE]},
            ("profiles.1.name", "yaml/duplicate-name", "profile gpu is declared twice: profiles[0] has the name too"),
        ),
        (
            {"profiles": [{"name": "cpu", "engine": "llamacpp", "memory_share": 0.5}]},
            ("profiles.0.memory_share", "yaml/unknown-field", "memory_share does not apply without gpu_class"),
        ),
        ({"moved": "m"}, ("moved", "yaml/type", "moved names the model itself")),
        (
            {"rollout": {"max_surge": 0}},
            (
                "rollout.max_surge",
                "yaml/type",
                "surge with max_surge 0 and max_unavailable 0 can never replace a replica",
            ),
        ),
        (
            {"rollout": {"strategy": "in_place", "max_unavailable": 0}},
            ("rollout.max_unavailable", "yaml/type", "in place with max_unavailable 0 can never replace a replica"),
        ),
    ],
)
def test_a_model_that_does_not(fields: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert of_model(**fields) == [expected]


def test_a_rollout_is_judged_with_what_the_fleet_adds() -> None:
    assert of_model({"max_unavailable": 1}, rollout={"max_surge": 0}) == []
    assert [path for path, _, _ in of_model({"max_surge": 0}, rollout={"bake": "1m"})] == ["rollout.max_surge"]
    assert of_model({"max_surge": 0}) == [], "that is told once, of the fleet"
    model = ModelSpec.model_validate(GOOD | {"rollout": {"max_surge": 0}})
    assert model_inconsistencies(model, None) == [], "the fleet could not be read"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("profiles", [PROFILE]),
        ("adapters", [{"name": "a", "source": SOURCE}]),
        ("scaling", {"min": 1}),
        ("rollout", {"bake": "1m"}),
        ("restart", "now"),
        ("unverified", True),
    ],
)
def test_what_does_not_apply_to_an_external_model(field: str, value: object) -> None:
    spec = ModelSpec.model_validate(EXTERNAL | {field: value})
    assert told(model_inconsistencies(spec, Rollout())) == [
        (field, "yaml/unknown-field", f"{field} does not apply to an external model")
    ]


def test_an_external_model_needs_nothing_else() -> None:
    harmless = {
        "context": 4096,
        "aliases": ["a"],
        "class": "critical",
        "fallbacks": ["b"],
        "owner": "x",
        "suspend": True,
    }
    assert model_inconsistencies(ModelSpec.model_validate(EXTERNAL | harmless), Rollout()) == []


def test_source_and_external_exclude_each_other() -> None:
    spec = ModelSpec.model_validate(EXTERNAL | {"source": SOURCE})
    assert told(model_inconsistencies(spec, Rollout())) == [
        ("external", "yaml/type", "source and external exclude each other")
    ]


def test_everything_is_told_at_once() -> None:
    spec = ModelSpec.model_validate({"name": "m", "moved": "m", "scaling": {"min": 2, "max": 1}})
    paths = [path for path, _, _ in told(model_inconsistencies(spec, Rollout()))]
    assert paths == ["", "context", "profiles", "scaling.max", "moved"]


def test_a_fleet() -> None:
    classes = {"own": {"memory_mib": 100, "engine_mib": 101}, "fine": {"memory_mib": 100, "engine_mib": 100}}
    fleet = FleetSpec.model_validate({"name": "f", "gpu_classes": classes, "defaults": {"rollout": {"max_surge": 0}}})
    assert told(fleet_inconsistencies(fleet)) == [
        (
            "defaults.rollout.max_surge",
            "yaml/type",
            "surge with max_surge 0 and max_unavailable 0 can never replace a replica",
        ),
        ("gpu_classes.own.engine_mib", "yaml/type", "an engine cannot see 101 MiB of 100 MiB"),
    ]
    assert fleet_inconsistencies(FleetSpec(name="f")) == []


def test_the_label_that_selects_by_name_is_taken() -> None:
    pool = PoolSpec.model_validate(
        {"pool": "p", "labels": {"node": "x"}, "nodes": ["a", {"name": "b", "labels": {"rack": "1", "node": "y"}}]}
    )
    assert [path for path, _, _ in told(pool_inconsistencies(pool))] == ["labels.node", "nodes.1.labels.node"]


def node(name: str, index: int = 0, **fields: Any) -> Node:
    """A node that stands at `index` of its pool's file."""
    return replace(a_node(name, gpus=2), where=Where("nodes/pool.yaml", ("nodes", index)), **fields)


@pytest.mark.parametrize(
    "address",
    [
        None,
        "local",
        "unix:/run/agent.sock",
        "https://n1.gpu.internal:7443",
        "https://10.0.0.1:65535",
        "https://[::1]:7443/agents/n1",
        "http://127.0.0.1:1",
        "https://n1",
    ],
)
def test_an_address_that_is_one(address: str | None) -> None:
    assert node_inconsistencies([node("n1", address=address)]) == []


@pytest.mark.parametrize(
    "address",
    [
        "https://{name}.internal",
        "https://n1:port",
        "https://n1:0",
        "https://n1:65536",
        f"https://n1:{'9' * 5000}",
        "https://user:secret@n1",
        "https://n1?x=1",
        "https://n1#x",
        "https://-n1",
        "https:///x",
        "unix:/run/{x}",
    ],
)
def test_an_address_that_is_none(address: str) -> None:
    found = node_inconsistencies([node("n1", address=address)])
    assert [(each.problem.path, each.problem.message) for each in found] == [
        (("nodes", 0, "address"), "the address of n1 is not valid")
    ]
    assert "secret" not in str(found[0].problem)


def test_two_nodes_with_one_name_or_one_address() -> None:
    first, second = node("n1", 0, address="https://a:1"), node("n2", 1, address="https://b:1")
    namesake = node("n1", 2, address="https://c:1")
    neighbour = node("n3", 3, address="https://b:1")
    found = node_inconsistencies([first, second, namesake, neighbour])
    assert [(each.node, each.problem.rule, each.problem.path, each.other) for each in found] == [
        (namesake, "yaml/duplicate-name", ("nodes", 2, "name"), first),
        (neighbour, "yaml/type", ("nodes", 3, "address"), second),
    ]


def test_only_one_node_is_local() -> None:
    found = node_inconsistencies([node("n1", 0, address="local"), node("n2", 1, address="local")])
    assert [each.problem.message for each in found] == ["only one node can have address: local"]


def test_a_mistake_in_a_range_is_told_once() -> None:
    found = node_inconsistencies([node(f"n{n}", address="https://gateway", drain_gpus=(0, 2, 3)) for n in range(50)])
    assert [each.problem.message for each in found] == [
        "node n0 has no GPU 2",
    ]


def test_a_drained_gpu_exists() -> None:
    found = node_inconsistencies([node("n1", drain_gpus=(1, 2)), replace(a_node("c1", gpus=0), drain_gpus=(0,))])
    assert [(each.problem.message, each.problem.hint) for each in found] == [
        ("node n1 has no GPU 2", "it has GPUs 0 to 1"),
        ("node c1 has no GPU 0", "it has no GPUs"),
    ]
