"""What was read and judged before: one file changes at a time, and the rest of a tree need not be gone through again.

Within a process (`run` looks at every commit) it is an object; between processes it is one entry of the cache.
Everything in it is known by content, so a wrong answer would take two files of one sha256.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from reconciler.domain.finding import Finding, Severity
from reconciler.gate.check import judge
from reconciler.sources.layout import stem_of
from reconciler.sources.loader import load
from reconciler.sources.readings import Readings
from reconciler.sources.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.gate.check import Against
    from reconciler.gate.room import Room
    from reconciler.sources.loaded import Loaded
    from reconciler.sources.tree import Tree

_FINDINGS: TypeAdapter[tuple[Finding, ...]] = TypeAdapter(tuple[Finding, ...])


@dataclass(frozen=True, slots=True)
class _Packed:
    """The room of the tree that was judged last."""

    room: Room
    fleet: bytes
    """The digest of cluster.yaml and nodes/."""
    keys: Mapping[str, str]
    """Of the models."""

    def room_of(self, fleet: bytes, keys: Mapping[str, str]) -> Room | None:
        """What of it holds for the tree of these digests; None where its nodes are others."""
        if fleet != self.fleet:
            return None
        return self.room.of_unchanged({model for model, key in keys.items() if self.keys.get(model) == key})


class Memory:
    """Readings of files and judgements of models that are in use."""

    def __init__(self, values: Mapping[str, Any] | None = None, judged: Mapping[str, Any] | None = None) -> None:
        """Both as `written` gives them; findings are checked when they are used."""
        self.readings = Readings(values)
        self.blobs: Recent[str, bytes] = Recent()
        """For `read_tree`; the bytes are those that the readings are known by."""
        self._judged: Recent[str, tuple[Finding, ...]] = Recent()
        self._written = judged or {}
        self._packed: _Packed | None = None

    def loaded(self, tree: Tree) -> Loaded:
        """What a tree says."""
        return load(tree, self.readings)

    def ruled(self, tree: Tree, loaded: Loaded, against: Against | None = None) -> tuple[Finding, ...]:
        """What the rules say of it."""
        fleet, keys = _keys(tree, loaded)
        known = {model: found for model, key in keys.items() if (found := self._find(key)) is not None}
        room = None if self._packed is None else self._packed.room_of(fleet, keys)
        judgement = judge(loaded.partial, loaded.broken, loaded.locate, loaded.findings, known, against, room)
        for model, found in judgement.each_alone.items():
            self._judged.keep(keys[model], found)
        self._packed = None if judgement.room is None else _Packed(judgement.room, fleet, keys)
        return judgement.findings

    def turn(self) -> None:
        """A new question begins: what neither it nor the one before uses is forgotten with the next."""
        self.readings.turn()
        self.blobs.turn()
        self._judged.turn()

    def written(self) -> bytes:
        """What may be kept for later processes, of what the last question used."""
        judged = {
            key: [each.model_dump(mode="json", exclude_defaults=True) for each in found]
            for key, found in self._judged.in_use().items()
        }
        return json.dumps({"values": self.readings.plain_values(), "judged": judged}).encode()

    def _find(self, key: str) -> tuple[Finding, ...] | None:
        found = self._judged.find(key)
        if found is not None or key not in self._written:
            return found
        try:
            return _FINDINGS.validate_python(self._written[key])
        except ValidationError:
            return None


def read_memory(content: bytes | None) -> Memory:
    """The memory that an earlier process wrote; an empty one where it cannot be read."""
    try:
        kept = json.loads(content or b"{}")
    except ValueError:
        kept = {}
    values, judged = (kept.get(name) if isinstance(kept, dict) else None for name in ("values", "judged"))
    return Memory(*(each if isinstance(each, dict) else None for each in (values, judged)))


def _keys(tree: Tree, loaded: Loaded) -> tuple[bytes, dict[str, str]]:
    """A digest of what describes the fleet, and for each model one of all that decides what the local rules say of it.

    That is its file, its lock, and whatever describes the fleet: cluster.yaml and all of nodes/. A lock that could not
    be read counts as one, and so does a finding that hides the inventory, since both follow from these files.
    """
    shared = hashlib.sha256()
    digest_by_file: dict[str, bytes] = {}
    lock_by_model: dict[str, bytes] = {}
    for file in tree.files:
        digest = hashlib.sha256(file.data).digest()
        if file.path.startswith("models/"):
            digest_by_file[tree.shown(file.path)] = digest
        elif file.path.startswith("locks/"):
            lock_by_model[stem_of(file.path)] = digest
        else:
            shared.update(f"{file.path}\0{file.kind}\0".encode("utf-8", "surrogateescape") + digest)
    shared.update(_hidden(loaded))
    fleet = shared.digest()
    nothing = bytes(len(fleet))
    return fleet, {
        name: hashlib.sha256(
            fleet + digest_by_file.get(where.file, nothing) + lock_by_model.get(name, nothing) + where.file.encode()
        ).hexdigest()
        for name, where in loaded.partial.where_by_model.items()
    }


def _hidden(loaded: Loaded) -> bytes:
    """Errors outside of models/ and locks/: they follow from more than one file, such as a tree that is too large."""
    told = [
        f"{each.file}\0{each.rule}\0{each.message}"
        for each in loaded.findings
        if each.severity is Severity.ERROR and each.model is None
    ]
    return "\0\0".join(told).encode("utf-8", "surrogateescape")
