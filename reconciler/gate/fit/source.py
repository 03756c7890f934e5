"""A SOURCE that no model of the catalog names, as a model: one profile for each engine that can take its format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reconciler.domain.desired import Where
from reconciler.domain.lock import Lock, WeightFormat
from reconciler.domain.model_spec import Engine, ModelSpec, Task
from reconciler.domain.shape import Shape
from reconciler.sizing.config_shape import read_config
from reconciler.sizing.gguf_shape import is_gguf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.desired import Desired, Node
    from reconciler.domain.lock import LockedSource

_PLACE = "source"
"""Name of the model, which nobody sees: the answer has the SOURCE as it was asked for."""

_CPU = "cpu"


def engines_for(format: WeightFormat) -> tuple[Engine, ...]:  # noqa: A002  # the lock's own word
    """Engines that load weights in this format; none for adapters and for what no header describes."""
    match format:
        case WeightFormat.SAFETENSORS:
            return (Engine.VLLM, Engine.SGLANG, Engine.TRTLLM)
        case WeightFormat.GGUF:
            return (Engine.LLAMACPP,)
        case WeightFormat.PEFT | WeightFormat.OTHER:
            return ()


def with_source(
    desired: Desired, locked: LockedSource, engines: tuple[Engine, ...], context: int, fields: Mapping[str, Any]
) -> Desired:
    """The fleet with this source as its only model; `fields` are set in every profile.

    llama.cpp gets a second profile for CPUs, with what the largest node without GPUs offers, or with `memory_gib` of
    `fields`; without either there is nothing to hold its need against.
    """
    # The class stands for `on GPUs` until options put others in its place.
    profiles: list[dict[str, Any]] = [
        {**fields, "name": engine, "engine": engine, "gpu_class": next(iter(desired.classes))} for engine in engines
    ]
    if Engine.LLAMACPP in engines:
        offered = _largest(desired.nodes) if "memory_gib" not in fields else {}
        if offered is not None:
            cores = {"cpu_cores": 1} | offered
            profiles.append({**cores, **fields, "name": _CPU, "engine": Engine.LLAMACPP})
    written = {
        "name": _PLACE,
        "source": locked.source,
        "context": context,
        "task": _task(locked),
        "profiles": profiles,
    }
    return replace(
        desired,
        models=(ModelSpec.model_validate(written),),
        locks={_PLACE: Lock(sources=(locked,))},
        where_by_model={_PLACE: Where(locked.source)},
    )


def _largest(nodes: tuple[Node, ...]) -> dict[str, Any] | None:
    """Host RAM and cores of the node without GPUs that has most of it."""
    plain = [node for node in nodes if not node.gpus and node.memory_gib]
    if not plain:
        return None
    most = max(plain, key=lambda node: (node.memory_gib or 0, node.name))
    return {"memory_gib": most.memory_gib, "cpu_cores": most.cpu_cores or 1}


def _task(locked: LockedSource) -> Task:
    """An encoder serves embeddings and holds no cache; everything else generates."""
    if locked.config is None or is_gguf(locked.config):
        return Task.GENERATE
    shape = read_config(locked.config, locked.quant_config, model_max_length=locked.model_max_length)
    return Task.EMBED if isinstance(shape, Shape) and shape.encoder else Task.GENERATE
