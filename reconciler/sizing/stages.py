"""How engines cut the layers of a model into pipeline stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_STAGES = 1024
"""As many as a model has layers at most (`layers.MOST_LAYERS`); all further ones are empty."""


def stage_layers(layers: int, stages: int, engine: Engine) -> tuple[range, ...]:
    """The layers of each stage, in order; each engine has its own place for what is left over.

    vLLM 0.32: the stages before the last, from behind (`distributed/utils.py::get_pp_indices`). SGLang: the last ones
    (`srt/distributed/utils.py::get_pp_indices`). TensorRT-LLM: the first ones (`mapping.py::pp_layers`).
    """
    stages = min(max(1, stages), MOST_STAGES)
    counts = [layers // stages] * stages
    for extra in range(layers % stages):
        counts[_place(extra, stages, engine)] += 1
    firsts = [sum(counts[:stage]) for stage in range(stages)]
    return tuple(range(first, first + count) for first, count in zip(firsts, counts, strict=True))


def _place(extra: int, stages: int, engine: Engine) -> int:
    """The stage that takes one layer more; none is asked twice, for fewer layers than stages are left over."""
    match engine:
        case Engine.TRTLLM:
            return extra
        case Engine.SGLANG:
            return stages - 1 - extra
        case Engine.VLLM | Engine.LLAMACPP | Engine.COMFYUI:
            return stages - 2 - extra


def within(layers: Sequence[int], stage: range) -> int:
    """How many of these layers, in ascending order, lie in a stage."""
    if not layers or layers[-1] < stage.start or layers[0] >= stage.stop:
        return 0
    if layers[0] >= stage.start and layers[-1] < stage.stop:
        return len(layers)
    return sum(1 for layer in layers if layer in stage)
