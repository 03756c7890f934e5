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
    """Relative to the source."""
    bytes: Count
    """Its size."""
    sha256: Text | None = None
    """Its digest, where the place it lies at tells it."""


class TensorRun(Frozen):
    """Bytes of one group of tensors over a run of layers that are alike; None outside the layers."""

    model_config = ConfigDict(extra="ignore")

    group: Text
    """embedding, output_head, attention, mlp, experts, norms, vision or other."""
    layers: tuple[Count, Count] | None = None
    """First and last layer; null outside the layers."""
    dtype: Text
    """Type in lower case, such as bf16 or q4_k."""
    bytes: Count
    """Of all its tensors."""


class LockedSource(Frozen):
    """One source of a model, profile or adapter as it was found."""

    model_config = ConfigDict(extra="ignore")

    source: SourceText
    """As written in the YAML."""
    revision: Text
    """What it resolved to: a commit, a package version, or the file's sha256."""
    format: WeightFormat
    """safetensors, gguf, peft or other."""
    weight_bytes: Count | None = None
    """Bytes of all weights; authoritative, never checked against config."""
    config: dict[str, Any] | None = None
    """config.json, or the GGUF metadata without its tokenizer arrays, as they are."""
    tensors: tuple[TensorRun, ...] | None = None
    """Bytes by group and layer; their sum is that of all tensors."""
    quant_config: dict[str, Any] | None = None
    """hf_quant_config.json or quantize_config.json as it is."""
    adapter_config: dict[str, Any] | None = None
    """adapter_config.json of an adapter as it is."""
    model_max_length: Annotated[float, Field(strict=True)] | None = None
    """Of the tokenizer's configuration, tokens."""
    files: tuple[LockedFile, ...] | None = None
    """What it is read from."""
    licence: str | None = None
    """As its place states it."""
    chat_template_sha256: str | None = None
    """Digest of its chat template."""


class Lock(Frozen):
    """All sources of one model."""

    model_config = ConfigDict(extra="ignore")

    format_version: Text = FORMAT_VERSION
    """A higher major is refused; missing reads as 1.0."""
    sources: tuple[LockedSource, ...]
    """One entry for each source of the model, its profiles and adapters."""

    def find(self, source: str) -> LockedSource | None:
        """The entry of a source as written in the YAML."""
        return next((each for each in self.sources if each.source == source), None)
