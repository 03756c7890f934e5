"""What a model's sources were found to be: `cluster/locks/<name>.json`, written by `reconciler lock`.

Any valid JSON of this form is read; unknown keys are ignored, so that a lock of a newer minor version stays good.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from reconciler.domain.base import FORMAT_VERSION, Count, Frozen, Text
from reconciler.domain.source import SourceText


class WeightFormat(StrEnum):
    """How weights are stored."""

    SAFETENSORS = "safetensors"
    GGUF = "gguf"
    PEFT = "peft"
    OTHER = "other"


class LockedFile(Frozen):
    """One file of a source."""

    model_config = ConfigDict(extra="ignore")

    path: Text
    bytes: Count
    sha256: Text | None = None


class TensorRun(Frozen):
    """Bytes of one group of tensors over a run of layers that are alike; None outside the layers."""

    model_config = ConfigDict(extra="ignore")

    group: Text
    """embedding, output_head, attention, mlp, experts, norms, vision or other."""
    layers: tuple[Count, Count] | None = None
    dtype: Text
    bytes: Count


class LockedSource(Frozen):
    """One source of a model, profile or adapter as it was found."""

    model_config = ConfigDict(extra="ignore")

    source: SourceText
    """As written in the YAML."""
    revision: Text
    """What it resolved to: a commit, a package version, or the file's sha256."""
    format: WeightFormat
    weight_bytes: Count | None = None
    """Bytes of all weights; authoritative, never checked against config."""
    config: dict[str, Any] | None = None
    """config.json, or the GGUF metadata without its tokenizer arrays, as they are."""
    tensors: tuple[TensorRun, ...] | None = None
    quant_config: dict[str, Any] | None = None
    adapter_config: dict[str, Any] | None = None
    model_max_length: Annotated[float, Field(strict=True)] | None = None
    files: tuple[LockedFile, ...] | None = None
    licence: str | None = None
    chat_template_sha256: str | None = None


class Lock(Frozen):
    """All sources of one model."""

    model_config = ConfigDict(extra="ignore")

    format_version: Text = FORMAT_VERSION
    sources: tuple[LockedSource, ...]

    def find(self, source: str) -> LockedSource | None:
        """The entry of a source as written in the YAML."""
        return next((each for each in self.sources if each.source == source), None)
