"""Desired sides built by hand, for what a file could not say as shortly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.desired import Desired, Node, Where
from reconciler.domain.fleet_spec import FleetSpec, GpuGroup
from reconciler.domain.model_spec import ModelSpec
from reconciler.gate.check import check

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.domain.finding import Finding


def a_node(name: str, gpu_class: str | None = "h100-80gb", count: int = 8, **fields: Any) -> Node:
    groups = () if gpu_class is None else (GpuGroup.model_validate({"class": gpu_class, "count": count}),)
    return Node(name, "pool", Where("nodes/pool.yaml", ("nodes", 0)), groups, **fields)


def a_model(name: str = "llama", *profiles: dict[str, Any], **fields: Any) -> ModelSpec:
    """A model with these profiles; each is vLLM on h100-80gb unless it says otherwise."""
    written = [
        {"name": f"p{number}", "engine": "vllm", "gpu_class": "h100-80gb", **one} for number, one in enumerate(profiles)
    ]
    return ModelSpec.model_validate(
        {"name": name, "source": "hf:org/llama@v1", "context": 8192, "profiles": written, **fields}
    )


def a_fleet(models: Iterable[ModelSpec] = (), nodes: Iterable[Node] = ()) -> Desired:
    listed = tuple(models)
    where = {model.name: Where(f"models/{model.name}.yaml") for model in listed}
    return Desired(FleetSpec(name="prod"), tuple(nodes), listed, where_by_model=where)


def found(models: Iterable[ModelSpec] = (), nodes: Iterable[Node] = ()) -> tuple[Finding, ...]:
    """What the rules say of a fleet, without lines."""
    return check(a_fleet(models, nodes), frozenset(), lambda _: (None, None))
