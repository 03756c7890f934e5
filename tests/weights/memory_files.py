"""Files in memory, for readers of formats: they ask for parts as of any other files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.weights.tensor_files import Content

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reconciler.domain.lock import LockedFile


@dataclass
class MemoryFiles:
    content: Mapping[str, Content]
    named: str | None = None
    licence: str | None = None
    shown: str = "hf:org/tiny"
    reads: list[tuple[str, int, int]] = field(default_factory=list)

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self.content))

    def size(self, path: str) -> int | None:
        return self.content[path].size if path in self.content else None

    def read(self, path: str, start: int, length: int) -> bytes:
        self.reads.append((path, start, length))
        return self.content[path].part(start, length)

    def digest(self, path: str) -> str | None:
        return None if path.endswith(".json") else f"digest of {path}"

    def revision(self, files: Sequence[LockedFile]) -> str:
        return f"revision of {len(files)} files"


def one_file(value: bytes | str | Content, path: str = "some.file") -> MemoryFiles:
    return MemoryFiles({path: Content.of(value)}, named=path)
