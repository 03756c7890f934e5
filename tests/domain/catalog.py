"""Models as their YAML states them, and what they declare."""

from __future__ import annotations

from typing import Any

from reconciler.domain.declaration import Declaration, declare
from reconciler.domain.desired import Desired
from reconciler.domain.fleet_spec import FleetSpec
from reconciler.domain.model_spec import ModelSpec

SOURCE = "hf:org/llama@6f6073b423013f6a7d4d9f39144961bfbfbc386b"

GPU_PROFILE: dict[str, Any] = {"name": "h100", "engine": "vllm", "gpu_class": "h100-80gb"}
CPU_PROFILE: dict[str, Any] = {"name": "cpu", "engine": "llamacpp", "memory_gib": 16.0, "cpu_cores": 8}
GPU_MODEL: dict[str, Any] = {"name": "llama-70b", "source": SOURCE, "context": 32768, "profiles": [GPU_PROFILE]}
CPU_MODEL: dict[str, Any] = {**GPU_MODEL, "profiles": [CPU_PROFILE]}


def a_model(**fields: Any) -> dict[str, Any]:
    """The GPU model with other fields."""
    return {**GPU_MODEL, **fields}


def with_profile(model: dict[str, Any] = GPU_MODEL, **fields: Any) -> dict[str, Any]:
    """A model with other fields in its first profile."""
    return {**model, "profiles": [{**model["profiles"][0], **fields}]}


def declared(model: dict[str, Any], fleet: dict[str, Any] | None = None) -> Declaration:
    """What a replica of the model's first profile would run."""
    desired = Desired(FleetSpec.model_validate({"name": "prod", **(fleet or {})}))
    spec = ModelSpec.model_validate(model)
    return declare(desired, spec, spec.profiles[0])


def digest(model: dict[str, Any], fleet: dict[str, Any] | None = None) -> str:
    """The launch digest of the model's first profile."""
    return declared(model, fleet).launch_digest()
