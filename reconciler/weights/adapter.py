"""A source that is a LoRA adapter as peft writes it: adapter_config.json and one file of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.lock import LockedSource, WeightFormat
from reconciler.errors import WeightsError
from reconciler.weights.checkpoint import ADAPTER_CONFIG
from reconciler.weights.files import beside, locked_files, read_json, size_of
from reconciler.weights.safetensors_header import read_tensors
from reconciler.weights.tensor_names import checkpoint_place
from reconciler.weights.tensor_runs import tensor_runs

if TYPE_CHECKING:
    from reconciler.weights.files import Files

WEIGHTS = "adapter_model.safetensors"
OLDER_WEIGHTS = "adapter_model.bin"


def lock_adapter(files: Files, source: str) -> LockedSource:
    """Lock an adapter of a repository or directory, or the one whose weights the source names."""
    config_file = beside(files, ADAPTER_CONFIG)
    config = read_json(files, config_file)
    if config is None:
        raise WeightsError(
            f"{files.shown} is no adapter: it has no {ADAPTER_CONFIG}",
            hint="name an adapter as peft writes it, or for llama.cpp one #FILE.gguf",
        )
    weights = files.named or next((name for name in (WEIGHTS, OLDER_WEIGHTS) if files.size(name) is not None), None)
    if weights is None:
        raise WeightsError(f"{files.shown} has neither {WEIGHTS} nor {OLDER_WEIGHTS}")
    tensors = read_tensors(files, weights) if weights.endswith(".safetensors") else None
    rows = locked_files(files, (config_file, weights))
    return LockedSource(
        source=source,
        revision=files.revision(rows),
        format=WeightFormat.PEFT,
        weight_bytes=size_of(files, weights) if tensors is None else sum(tensor.bytes for tensor in tensors),
        tensors=None if tensors is None else tensor_runs(tensors, checkpoint_place),
        adapter_config=config,
        files=rows,
        licence=files.licence,
    )
