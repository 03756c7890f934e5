"""`reconciler lock`: what the sources of a model are, as a file to commit.

First form: GGUF files from `file:` and `package:` sources. Nothing of this machine gets into a lock.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING

from reconciler.domain.lock import Lock, LockedFile, LockedSource, WeightFormat
from reconciler.domain.source import FileSource, HttpsSource, HubSource, PackageSource, parse_source
from reconciler.durable import write_atomically
from reconciler.errors import WeightsError
from reconciler.weights.gguf_header import read_header
from reconciler.weights.locate import locate
from reconciler.weights.tensor_runs import tensor_runs

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.model_spec import ModelSpec

LOCK_MODE = 0o644
"""It is committed: everyone who can read the repository may read it."""


def make_lock(model: ModelSpec) -> Lock:
    """Look at every source of a model, its profiles and adapters; WeightsError names the one that cannot be locked.

    Reads each file once, whole, for its digest.
    """
    return Lock(sources=tuple(_lock_source(source) for source in _sources(model)))


def lock_text(lock: Lock) -> str:
    """The canonical text: sorted keys, two spaces, no nulls, a newline at the end."""
    plain = lock.model_dump(mode="json", exclude_none=True)
    return json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_lock(path: Path, lock: Lock) -> bool:
    """Write the lock, whole or not at all; False when the file says the same already."""
    text = lock_text(lock).encode()
    try:
        if path.exists() and path.read_bytes() == text:
            return False
        write_atomically(path, text, mode=LOCK_MODE)
    except OSError as error:
        raise WeightsError(f"{path} cannot be written: {error.strerror}") from error
    return True


def _sources(model: ModelSpec) -> tuple[str, ...]:
    """Each source once, in the order of the YAML."""
    named = [
        model.source,
        *(source for profile in model.profiles for source in (profile.source, profile.mmproj)),
        *(adapter.source for adapter in model.adapters),
    ]
    return tuple(dict.fromkeys(source for source in named if source is not None))


def _lock_source(source: str) -> LockedSource:
    match parse_source(source):
        case HubSource() | HttpsSource():
            raise WeightsError(
                f"{source} cannot be locked yet: this version locks file: and package: sources",
                hint="hubs and downloads come later; until then say unverified: true in the model",
            )
        case FileSource(path):
            file = _read(source, path.rpartition("/")[2])
            return _locked(source, f"sha256:{file.sha256}", file, licence=None)
        case PackageSource(package, path):
            file = _read(source, path)
            name = _distribution(package)
            return _locked(source, f"{name}=={metadata.version(name)}", file, licence=_licence(name))


@dataclass(frozen=True, slots=True)
class _File:
    """One file of a source: where it is here, what it is called in the lock, and its digest."""

    here: Path
    name: str
    bytes: int
    sha256: str


def _read(source: str, name: str) -> _File:
    here = locate(source)
    if here.suffix != ".gguf" or not here.is_file():
        raise WeightsError(
            f"{source} cannot be locked yet: this version locks single GGUF files",
            hint="safetensors come later; until then say unverified: true in the model",
        )
    try:
        with here.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
    except OSError as error:
        raise WeightsError(f"{source} cannot be read: {error.strerror}") from error
    return _File(here, name, size, digest)


def _locked(source: str, revision: str, file: _File, *, licence: str | None) -> LockedSource:
    header = read_header(file.here)
    parts = header.metadata.get("split.count", 0)
    if isinstance(parts, int) and parts > 1:
        raise WeightsError(f"{source} is one of {parts} parts; this version locks models of one file")
    stated = header.metadata.get("general.license")
    return LockedSource(
        source=source,
        revision=revision,
        format=WeightFormat.GGUF,
        weight_bytes=header.weight_bytes,
        config=dict(header.metadata),
        tensors=tensor_runs(header.tensors),
        files=(LockedFile(path=file.name, bytes=file.bytes, sha256=file.sha256),),
        licence=stated if isinstance(stated, str) else licence,
        chat_template_sha256=header.chat_template_sha256,
    )


def _distribution(package: str) -> str:
    """Name of the distribution that carries a package, as its metadata write it."""
    top = package.partition(".")[0]
    names = metadata.packages_distributions().get(top, [])
    if len(set(names)) > 1:
        raise WeightsError(f"the package {top} comes from several distributions: {', '.join(sorted(set(names)))}")
    if not names:
        raise WeightsError(f"the package {top} belongs to no installed distribution, so it has no version to lock")
    return names[0]


def _licence(distribution: str) -> str | None:
    told = metadata.metadata(distribution)
    stated = (told[field] for field in ("License-Expression", "License") if field in told)
    return next(stated, None)
