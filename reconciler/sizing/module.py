"""One weight matrix of a model: what it belongs to, its sizes, and how an engine splits it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Split(StrEnum):
    """How a matrix is shared out."""

    COLUMN = "column"
    """By outputs; each merged part on its own."""
    ROW = "row"
    """By inputs."""
    QKV = "qkv"
    """By heads; KV heads are copied where there are fewer than ranks."""
    WHOLE = "whole"
    """Every rank holds all of it."""
    EXPERTS = "experts"
    """Each expert by its width, or whole experts with expert parallel."""
    VOCABULARY = "vocabulary"
    """By rows of the vocabulary."""


class Part(StrEnum):
    """What of the model a matrix belongs to; it names the rule that speaks for it."""

    ATTENTION = "attention"
    MLP = "mlp"
    SHARED = "shared experts"
    EXPERTS = "experts"
    RECURRENT = "recurrent"
    TOWER = "tower"
    VOCABULARY = "vocabulary"
    NORM = "norm"


@dataclass(frozen=True, slots=True)
class Module:
    """One weight matrix, or several that an engine merges; sizes are of the whole model."""

    part: Part
    split: Split
    path: str
    """Below its layer, such as mlp.down_proj."""
    inputs: int
    outputs: tuple[int, ...]
    shards: tuple[str, ...] = ()
    """Names in a checkpoint where they are merged."""
    layers: tuple[int, ...] = ()
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    value_dim: int = 0
    quantized: bool = True
    """Whether a quantization config reaches it at all."""
    where: str = ""
    """Path above, for towers."""
