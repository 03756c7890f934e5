"""Two locks of one model → what differs, in words: what `lock --check` and `--upgrade` tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from reconciler.weights.https_files import shown_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.lock import Lock, LockedSource

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT = 8
_GIB = 2**30
_MOST_NAMES = 4
_WEIGHTS = (".safetensors", ".gguf", ".bin")


def lock_changes(before: Lock | None, after: Lock) -> tuple[str, ...]:
    """One line for each difference, with the source it is about; none when the same was found again.

    A field that `before` does not have is no difference while the revision is the same: older locks say less.
    """
    lines: list[str] = []
    for found in after.sources:
        known = before.find(found.source) if before else None
        told = ["not locked yet"] if known is None else list(_changes(known, found))
        lines += [f"{shown_source(found.source)}: {each}" for each in told]
    wanted = {each.source for each in after.sources}
    gone = [shown_source(each.source) for each in (before.sources if before else ()) if each.source not in wanted]
    return (*lines, *(f"{source}: locked, and no longer used" for source in gone))


def short_revision(revision: str) -> str:
    """Eight digits of a commit; other revisions as they are."""
    return revision[:_SHORT] if _COMMIT.fullmatch(revision) else revision


def _changes(before: LockedSource, after: LockedSource) -> Iterator[str]:
    moved = before.revision != after.revision
    if moved:
        yield f"moved from {short_revision(before.revision)} to {short_revision(after.revision)}"
    if before.format != after.format:
        yield f"format changed: {before.format} → {after.format}"
    weights = _weights(before, after)
    if weights:
        yield f"weights changed: {weights}"
    for name in ("config", "quant_config", "adapter_config"):
        keys = _keys(getattr(before, name), getattr(after, name), moved=moved)
        if keys:
            yield f"{name} changed: {keys}"
    for name, word in (("licence", "licence"), ("model_max_length", "model_max_length")):
        was, found = getattr(before, name), getattr(after, name)
        if was != found and (was is not None or moved):
            yield f"{word} changed: {_said(was)} → {_said(found)}"
    was, found = before.chat_template_sha256, after.chat_template_sha256
    if was != found and (was is not None or moved):
        yield f"chat template changed: {(was or 'none')[:_SHORT]} → {(found or 'none')[:_SHORT]}"


def _weights(before: LockedSource, after: LockedSource) -> str | None:
    """How the weights differ: in size, else by the digest of a file, else in their tensors."""
    was, found = before.weight_bytes, after.weight_bytes
    if was is not None and was != found:
        return f"{_size(was)} → {_size(found)}"
    digest_by_path = {file.path: file.sha256 for file in before.files or () if file.path.endswith(_WEIGHTS)}
    other = [
        file.path
        for file in after.files or ()
        if digest_by_path.get(file.path) is not None and file.sha256 != digest_by_path[file.path]
    ]
    if other:
        return _listed(other)
    if before.tensors is not None and before.tensors != after.tensors:
        return "same size, other tensors"
    return None


def _keys(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, *, moved: bool) -> str | None:
    """The keys whose values differ."""
    if before is None and not moved:
        return None
    was, found = before or {}, after or {}
    return _listed([key for key in sorted({*was, *found}) if was.get(key, ...) != found.get(key, ...)])


def _listed(names: list[str]) -> str | None:
    more = len(names) - _MOST_NAMES
    return (", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")) or None


def _size(count: int | None) -> str:
    """Bytes too where GiB do not tell two sizes apart."""
    return "unknown" if count is None else f"{count / _GIB:,.2f} GiB ({count:,} bytes)"


def _said(value: object) -> str:
    return "not stated" if value is None else str(value)
