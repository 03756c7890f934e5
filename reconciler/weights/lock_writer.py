"""A model → its lock, and a lock → `cluster/locks/<name>.json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from reconciler.domain.lock import Lock, LockedSource, WeightFormat
from reconciler.domain.source import HubSource, parse_source
from reconciler.durable import write_atomically
from reconciler.errors import WeightsError
from reconciler.weights.lock_source import Role, lock_source

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.model_spec import ModelSpec
    from reconciler.weights.lock_source import Access

LOCK_MODE = 0o644
"""It is committed: everyone who can read the repository may read it."""

MOST_LOCK_BYTES = 256 * 1024
"""Larger files are refused where `cluster/` is read (`sources.tree`)."""


def make_lock(model: ModelSpec, access: Access, before: Lock | None = None, *, afresh: bool = False) -> Lock:
    """Look at every source of a model, its profiles and adapters; WeightsError names the one that cannot be locked.

    An entry of `before` is kept as it is, and its source not looked at, unless `afresh`. One that lacks what this
    version writes is read again, from a hub at the revision that it is locked to.
    """
    known = None if afresh else before
    return Lock(sources=tuple(_locked(source, role, access, known) for source, role in sources_of(model)))


def sources_of(model: ModelSpec) -> tuple[tuple[str, Role], ...]:
    """Each source once with what it is for, in the order of the YAML."""
    models = [model.source, *(source for profile in model.profiles for source in (profile.source, profile.mmproj))]
    roles = dict.fromkeys((source for source in models if source is not None), Role.MODEL)
    for adapter in model.adapters:
        roles.setdefault(adapter.source, Role.ADAPTER)
    return tuple(roles.items())


def pinned(source: str, locked: LockedSource) -> str | None:
    """How to write a hub source so that it stays what it was locked to; None where it is written so, or is no hub's."""
    parsed = parse_source(source)
    if not isinstance(parsed, HubSource) or parsed.revision == locked.revision:
        return None
    return f"hf:{parsed.repo}@{locked.revision}" + (f"#{parsed.path}" if parsed.path else "")


def lock_text(lock: Lock) -> str:
    """The canonical text: sorted keys, two spaces, fields without a value left out, a newline at the end."""
    plain = lock.model_dump(mode="json", exclude_none=True)
    return json.dumps(plain, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_lock(path: Path, lock: Lock) -> None:
    """Write the lock, whole or not at all."""
    text = lock_text(lock).encode()
    if len(text) > MOST_LOCK_BYTES:
        raise WeightsError(
            f"{path.name} would have {len(text) // 1024:,} KiB; files of cluster/ have at most"
            f" {MOST_LOCK_BYTES // 1024} KiB",
            hint="a quantization config that lists every module is the usual cause; say unverified: true in the model",
        )
    try:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, text, mode=LOCK_MODE)
    except OSError as error:
        raise WeightsError(f"{path} cannot be written: {error.strerror}") from error


def kept_entry(source: str, before: Lock | None) -> LockedSource | None:
    """The entry that stays as it is, its source not looked at; None where it is missing or lacks something."""
    entry = before.find(source) if before else None
    return entry if entry is not None and _is_complete(entry) else None


def _locked(source: str, role: Role, access: Access, before: Lock | None) -> LockedSource:
    kept = kept_entry(source, before)
    if kept is not None:
        return kept
    lacking = before.find(source) if before else None
    on_hub = isinstance(parse_source(source), HubSource)
    return lock_source(source, role, access, revision=lacking.revision if lacking is not None and on_hub else None)


def _is_complete(entry: LockedSource) -> bool:
    """Whether it has everything that this version would write for its format and could not do without."""
    has = (entry.weight_bytes is not None, entry.files is not None)
    match entry.format:
        case WeightFormat.SAFETENSORS | WeightFormat.GGUF:
            return all((*has, entry.config is not None, entry.tensors is not None))
        case WeightFormat.PEFT:
            return all((*has, entry.adapter_config is not None))
        case WeightFormat.OTHER:
            return all(has)
