"""What is asked of an engine, and what it would say: one reason each, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from reconciler.domain.finding import Severity
from reconciler.domain.model_spec import Engine, Task

if TYPE_CHECKING:
    from collections.abc import Mapping


class Reason(StrEnum):
    """Why; the values are the gate's rule slugs."""

    ATTENTION_SPLIT = "heads/attention-split"
    KV_SPLIT = "heads/kv-split"
    KV_REPLICATED = "heads/kv-replicated"
    VOCAB_SPLIT = "heads/vocab-split"
    MLP_SPLIT = "heads/mlp-split"
    EXPERTS_SPLIT = "heads/experts-split"
    QUANT_GROUP = "heads/quant-group"
    VISION_SPLIT = "heads/vision-split"
    RECURRENT_SPLIT = "heads/recurrent-split"
    PIPELINE_LAYERS = "heads/pipeline-layers"
    PARALLEL_PRODUCT = "heads/parallel-product"
    BEYOND_TRAINED = "context/beyond-trained"
    UNSUPPORTED = "inventory/unsupported"


@dataclass(frozen=True, slots=True)
class ParallelAsk:
    """How one replica would run a model."""

    engine: Engine
    version: str
    gpus: int = 1
    """Per node."""
    nodes: int = 1
    pipeline: int = 1
    data: int = 1
    expert_parallel: bool = False
    task: Task = Task.GENERATE
    context: int | None = None
    """Tokens one request may use; None is not checked."""
    quantization: str | None = None
    """Method in the engine's own words, where the profile sets one."""
    dtype: str | None = None
    capability: tuple[int, int] | None = None
    """CUDA compute capability of the GPUs; None is not known or not CUDA."""
    split_mode: str | None = None
    """llama.cpp: layer, row, tensor or none; None is its own default, layer."""
    towers_whole: bool = False
    """vLLM: --mm-encoder-tp-mode data keeps towers whole on every GPU."""
    longer_context: bool = False
    """The override for contexts beyond the trained length is set."""

    @property
    def product(self) -> int:
        """GPUs of the whole replica."""
        return self.gpus * self.nodes

    @property
    def width(self) -> int | None:
        """Tensor-parallel width; None when it is not whole."""
        stages = self.pipeline * self.data
        return None if stages < 1 or self.product < 1 or self.product % stages else self.product // stages


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason; `numbers` holds the figures of the message by name."""

    reason: Reason
    message: str
    numbers: Mapping[str, int | float]
    decided_by: str
    """Module, tensor or config key."""
    severity: Severity = Severity.ERROR
    hint: str | None = None
    """What would pass, where the arithmetic tells."""


@lru_cache(maxsize=1024)
def version_key(version: str) -> tuple[int, ...]:
    """Numbers of a version for comparison: 0.32.0, 0.7.x, 1.2.0rc4, b11434; letters end it."""
    numbers: list[int] = []
    for part in version.removeprefix("v").removeprefix("b").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits or len(digits) > 9:  # noqa: PLR2004  # no version part has ten digits
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)
