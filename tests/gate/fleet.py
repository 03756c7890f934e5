"""Desired sides built by hand, for what a file could not say as shortly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.desired import Desired, Node, Where
from reconciler.domain.fleet_spec import FleetSpec, GpuGroup
from reconciler.domain.lock import Lock
from reconciler.domain.model_spec import ModelSpec
from reconciler.gate.check import check
from tests.gate.locks import lock_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.domain.finding import Finding


COMMIT = "0e9e39f249a16976918f6564b8830bc894c89659"
SOURCE = f"hf:org/llama@{COMMIT}"


def a_node(name: str, gpu_class: str | None = "h100-80gb", count: int = 8, **fields: Any) -> Node:
    groups = () if gpu_class is None else (GpuGroup.model_validate({"class": gpu_class, "count": count}),)
    return Node(name, "pool", Where("nodes/pool.yaml", ("nodes", 0)), groups, **fields)


def a_model(name: str = "llama", *profiles: dict[str, Any], **fields: Any) -> ModelSpec:
    """A model with these profiles; each is vLLM on h100-80gb unless it says otherwise."""
    written = [
        {"name": f"p{number}", "engine": "vllm", "gpu_class": "h100-80gb", **one} for number, one in enumerate(profiles)
    ]
    return ModelSpec.model_validate({"name": name, "source": SOURCE, "context": 8192, "profiles": written, **fields})


VERSIONS = {"vllm": "0.32.0", "sglang": "0.5.23", "llamacpp": "11549"}
"""Named, so that no note says which were taken."""


def a_fleet(models: Iterable[ModelSpec] = (), nodes: Iterable[Node] = (), shape: str = "plain") -> Desired:
    """Models on nodes, each with a lock of this shape."""
    listed = tuple(models)
    where = {model.name: Where(f"models/{model.name}.yaml") for model in listed}
    lock = Lock.model_validate_json(lock_text({"shape": shape, "revision": COMMIT}, f"source: {SOURCE}"))
    fleet = FleetSpec.model_validate({"name": "prod", "defaults": {"engine_versions": VERSIONS}})
    return Desired(fleet, tuple(nodes), listed, dict.fromkeys(where, lock), where)


def found(models: Iterable[ModelSpec] = (), nodes: Iterable[Node] = (), shape: str = "plain") -> tuple[Finding, ...]:
    """What the rules say of a fleet, without lines."""
    return check(a_fleet(models, nodes, shape), frozenset(), lambda _: (None, None))
