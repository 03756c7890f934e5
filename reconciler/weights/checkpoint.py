"""A source that is a checkpoint: config.json with safetensors, one file or shards, or with older weights."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.domain.lock import LockedSource, WeightFormat
from reconciler.errors import WeightsError
from reconciler.weights.files import beside, locked_files, read_json, size_of
from reconciler.weights.safetensors_header import read_tensors
from reconciler.weights.tensor_names import checkpoint_place
from reconciler.weights.tensor_runs import tensor_runs
from reconciler.weights.tokenizer import TOKENIZER_FILES, Tokenizer, read_tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.weights.files import Files
    from reconciler.weights.tensor_runs import Tensor

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
QUANT_CONFIGS = ("hf_quant_config.json", "quantize_config.json")
"""ModelOpt's, and that of the first GPTQ checkpoints; the first that is there counts."""

READ_AT_ONCE = 8
"""Headers read at the same time, as many as huggingface_hub downloads files: 160 shards of a hub that answers in 200 ms
take 4 s instead of 32."""

_SHARD = re.compile(r"^model-\d{5}-of-\d{5}\.safetensors$")
_OLDER = re.compile(r"^pytorch_model(-\d{5}-of-\d{5})?\.bin$")
_LOADED = (".json", ".jinja", ".model", ".txt", ".py", ".tiktoken", ".spm")
"""What engines read beside the weights: configs, vocabularies, templates, code of the model's own."""


def lock_checkpoint(files: Files, source: str) -> LockedSource:
    """Lock a whole repository or directory."""
    config = read_json(files, CONFIG)
    if config is None:
        raise _no_config(files)
    kind, weights = _weights(files)
    tensors = _tensors(files, weights) if kind is WeightFormat.SAFETENSORS else None
    loaded = [path for path in files.paths() if "/" not in path and path.endswith(_LOADED)]
    return _locked(files, source, _Found(kind, config, weights, tensors, (*weights, *loaded)))


def lock_weight_file(files: Files, source: str, path: str) -> LockedSource:
    """Lock one file of weights that a source names: with what lies beside it where there is a config.json."""
    if _SHARD.match(path.rpartition("/")[2]):
        raise WeightsError(
            f"{path} is one shard of several", hint="name the whole repository or directory, without the file"
        )
    tensors = _tensors(files, [path]) if path.endswith(".safetensors") else None
    config = read_json(files, beside(files, CONFIG))
    kind = WeightFormat.OTHER if tensors is None or config is None else WeightFormat.SAFETENSORS
    told = [beside(files, name) for name in (CONFIG, *QUANT_CONFIGS, *TOKENIZER_FILES)] if config is not None else []
    loaded = (path, *(each for each in told if files.size(each) is not None))
    return _locked(files, source, _Found(kind, config, [path], tensors, loaded))


@dataclass(frozen=True, slots=True)
class _Found:
    """What was chosen of the files of a source."""

    kind: WeightFormat
    config: dict[str, Any] | None
    weights: Sequence[str]
    tensors: Sequence[Tensor] | None
    """None where the weights do not say what is in them."""
    loaded: Sequence[str]
    """The files that an engine reads, the weights among them."""


def _locked(files: Files, source: str, found: _Found) -> LockedSource:
    is_checkpoint = found.config is not None
    tokenizer = read_tokenizer(files) if is_checkpoint else Tokenizer(None, None)
    quant_configs = (read_json(files, beside(files, name)) for name in QUANT_CONFIGS if is_checkpoint)
    rows = locked_files(files, found.loaded)
    tensors = found.tensors
    return LockedSource(
        source=source,
        revision=files.revision(rows),
        format=found.kind,
        weight_bytes=sum(size_of(files, path) for path in found.weights)
        if tensors is None
        else sum(tensor.bytes for tensor in tensors),
        config=found.config,
        tensors=None if tensors is None else tensor_runs(tensors, checkpoint_place),
        quant_config=next((each for each in quant_configs if each is not None), None),
        model_max_length=tokenizer.model_max_length,
        files=rows,
        licence=files.licence,
        chat_template_sha256=tokenizer.chat_template_sha256,
    )


def _weights(files: Files) -> tuple[WeightFormat, list[str]]:
    """The files that an engine would load, as transformers and vLLM choose among several copies."""
    names = [path for path in files.paths() if "/" not in path]
    indexed = _indexed(files)
    if indexed is not None:
        return WeightFormat.SAFETENSORS, indexed
    if SINGLE in names:
        return WeightFormat.SAFETENSORS, [SINGLE]
    shards = [name for name in names if _SHARD.match(name)]
    others = [name for name in names if name.endswith(".safetensors") and not name.startswith("consolidated")]
    consolidated = [name for name in names if name.endswith(".safetensors") and name.startswith("consolidated")]
    chosen = shards or others or consolidated
    if chosen:
        return WeightFormat.SAFETENSORS, chosen
    older = [name for name in names if _OLDER.match(name)]
    if older:
        single = "pytorch_model.bin"
        return WeightFormat.OTHER, [single] if single in older else older
    raise WeightsError(f"{files.shown} has no weights: neither safetensors nor pytorch_model.bin", hint=_gguf(files))


def _indexed(files: Files) -> list[str] | None:
    """The shards that an index names; None without an index."""
    index = read_json(files, INDEX)
    if index is None:
        return None
    names = index.get("weight_map")
    shards = (
        set(names.values()) if isinstance(names, dict) and all(isinstance(v, str) for v in names.values()) else set()
    )
    if not shards:
        raise WeightsError(f"{INDEX} of {files.shown} names no shards")
    missing = sorted(shards - set(files.paths()))
    if missing:
        raise WeightsError(f"{INDEX} of {files.shown} names {missing[0]}, which is not there")
    return sorted(shards)


def _tensors(files: Files, paths: Sequence[str]) -> list[Tensor]:
    """The tensors of all files, several headers at a time; the first error ends it."""
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        return [tensor for found in pool.map(lambda path: read_tensors(files, path), paths) for tensor in found]


def _no_config(files: Files) -> WeightsError:
    if files.size(ADAPTER_CONFIG) is not None:
        return WeightsError(
            f"{files.shown} is an adapter, not a model: it has {ADAPTER_CONFIG} and no {CONFIG}",
            hint="write its base model as source, and this one under adapters",
        )
    return WeightsError(
        f"{files.shown} has no {CONFIG}", hint=_gguf(files) or "say unverified: true to serve it anyway"
    )


def _gguf(files: Files) -> str | None:
    """Which file was probably meant."""
    found = [path for ending in (".gguf", ".safetensors") for path in files.paths() if path.endswith(ending)]
    return f"name one of its files: #{found[0]}" if found else None
