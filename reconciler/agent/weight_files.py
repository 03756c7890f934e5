"""What a launch needs to know of weights beyond where they are: their size, parts of it, and an adapter's rank."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reconciler.errors import WeightsError
from reconciler.weights.disk import DiskFiles
from reconciler.weights.meter import Meter
from reconciler.weights.safetensors_header import read_tensors
from reconciler.weights.tensor_names import checkpoint_place

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf")
"""Of weights, the preferred first: a directory may hold the same weights in two forms, and one is loaded."""

_VOCABULARY = ("embedding", "output_head")
"""Groups of tensors as long as the vocabulary."""

_ADAPTER_CONFIG = "adapter_config.json"


def size_of(path: Path) -> int | None:
    """Bytes of the weights in this file or directory; None when there are none to be seen."""
    try:
        if path.is_file():
            return path.stat().st_size
        for suffix in _SUFFIXES:
            sizes = [each.stat().st_size for each in path.iterdir() if each.suffix == suffix]
            if sizes:
                return sum(sizes)
    except OSError:
        return None
    return None


def vocabulary_bytes(path: Path) -> int | None:
    """Bytes of the embedding and the output head in a directory of safetensors; None where its files do not tell."""
    if not path.is_dir():
        return None
    files = DiskFiles(path, str(path), named=None, version=None, meter=Meter())
    try:
        tensors = [
            each for name in files.paths() if name.endswith(".safetensors") for each in read_tensors(files, name)
        ]
    except (OSError, WeightsError):
        return None  # the engine says what is wrong with them
    return sum(each.bytes for each in tensors if checkpoint_place(each.name)[0] in _VOCABULARY) or None


def adapter_rank(path: Path) -> int | None:
    """The rank that a PEFT adapter's own file tells; None for one of another kind, or one that cannot be read."""
    directory = path if path.is_dir() else path.parent
    try:
        config = json.loads((directory / _ADAPTER_CONFIG).read_bytes())
    except (OSError, ValueError):
        return None
    rank = config.get("r") if isinstance(config, dict) else None
    return rank if type(rank) is int and rank > 0 else None
