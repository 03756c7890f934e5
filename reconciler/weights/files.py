"""The files of one source at one revision, wherever they lie: on a hub, behind a URL, on disk, in a package.

What reads formats asks through this protocol only, so that a header is the same header from anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from reconciler.domain.lock import LockedFile
from reconciler.errors import WeightsError
from reconciler.weights.plain_json import read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_JSON_BYTES = 64 * 2**20
"""Of one JSON file. The largest are indices of checkpoints with 140,000 expert tensors, about 20 MiB."""

MOST_HEADER_BYTES = 256 * 2**20
"""Read of one file from its beginning. GGUF headers hold whole vocabularies: 8 MiB for 128,000 tokens and merges."""

_AHEAD_BYTES = 2 * 2**20
"""Fetched at once of a header of unknown length: one request for a small vocabulary, four for a large one."""


class Files(Protocol):
    """What a source consists of; paths are posix, relative to the repository, directory or package."""

    @property
    def shown(self) -> str:
        """The source as people may read it, without what may be secret in a URL."""
        ...

    @property
    def named(self) -> str | None:
        """The one file that the source names; None where it means the whole repository or directory."""
        ...

    @property
    def licence(self) -> str | None:
        """What the place itself says of the licence."""
        ...

    def paths(self) -> tuple[str, ...]:
        """All files; of a URL, which lists nothing, only itself."""
        ...

    def size(self, path: str) -> int | None:
        """Bytes of a file; None where there is none."""
        ...

    def read(self, path: str, start: int, length: int) -> bytes:
        """Exactly so many bytes, or up to the end of the file; WeightsError when they cannot be had."""
        ...

    def digest(self, path: str) -> str | None:
        """Its sha256, where that can be told without a download."""
        ...

    def revision(self, files: Sequence[LockedFile]) -> str:
        """What the source resolved to; `files` are those that were found to belong to it."""
        ...


def beside(files: Files, name: str) -> str:
    """The path of a file that lies where the source's own files lie."""
    folder = (files.named or "").rpartition("/")[0]
    return f"{folder}/{name}" if folder else name


def locked_files(files: Files, paths: Iterable[str]) -> tuple[LockedFile, ...]:
    """Rows of a lock, sorted by path."""
    return tuple(
        LockedFile(path=path, bytes=size_of(files, path), sha256=files.digest(path)) for path in sorted(set(paths))
    )


def size_of(files: Files, path: str) -> int:
    """Bytes of a file that has to be there."""
    size = files.size(path)
    if size is None:
        raise WeightsError(f"{files.shown} has no file {path}")
    return size


def read_whole(files: Files, path: str) -> bytes | None:
    """All of a small file; None where there is none."""
    size = files.size(path)
    if size is None:
        return None
    if size > MOST_JSON_BYTES:
        raise WeightsError(
            f"{path} of {files.shown} has {size:,} bytes; at most {MOST_JSON_BYTES:,} are read of such a file"
        )
    return files.read(path, 0, size) if size else b""


def read_json(files: Files, path: str) -> dict[str, Any] | None:
    """A JSON object as plain data that a lock can hold; None where there is no such file."""
    data = read_whole(files, path)
    return None if data is None else read_object(data, f"{path} of {files.shown}")


class Stream:
    """A file from its beginning, fetched ahead in parts: for headers that do not say how long they are."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.size = size_of(files, path)
        self._files = files
        self._window = b""
        self._start = 0
        """Where the window begins in the file."""
        self._position = 0

    def tell(self) -> int:
        """Bytes read so far."""
        return self._position

    def read(self, count: int) -> bytes:
        """The next bytes; fewer where the file ends."""
        offset = self._position - self._start
        if offset + count > len(self._window):
            self._fetch(offset, count)
            offset = 0
        taken = self._window[offset : offset + count]
        self._position += len(taken)
        return taken

    def _fetch(self, offset: int, count: int) -> None:
        kept = self._window[offset:]
        position = self._position + len(kept)
        wanted = max(count - len(kept), _AHEAD_BYTES)
        if position + wanted > MOST_HEADER_BYTES:
            raise WeightsError(
                f"the header of {self.path} is longer than {MOST_HEADER_BYTES // 2**20} MiB, which no model needs"
            )
        length = min(wanted, self.size - position)
        fetched = self._files.read(self.path, position, length) if length > 0 else b""
        self._window, self._start = kept + fetched, self._position
