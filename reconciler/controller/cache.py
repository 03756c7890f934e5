"""Files on disk that save work and hold nothing else: losing them, or never writing them, changes no answer.

Entries are written whole and carry their own checksum, so runs beside each other and runs that were killed do no harm:
what does not read back is as if it were not there, and is written anew. Nothing is stored that may hold a secret; what
callers put here is masked like everything that is printed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.durable import make_private_directory, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping

CACHE_VARIABLE = "RECONCILER_CACHE_DIR"

MOST_BYTES = 64 * 1024 * 1024
"""Of all entries together: a fleet of 1,000 models takes about 1 MiB an answer, so the last few dozen are kept."""
MOST_ENTRIES = 200
_KEPT_SHARE = 0.75
"""Of either bound that is kept when one is passed, the most recently used: so that not every write has to look."""

_SUFFIX = ".entry"
_DIGEST_BYTES = 32
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Cache:
    """Entries by name in one directory of this user's."""

    directory: Path

    def read(self, name: str) -> bytes | None:
        """An entry as it was written; None where there is none, or none that can be trusted."""
        path = self._path(name)
        try:
            if not self._is_ours():
                return None
            data = path.read_bytes()
            digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
            if hashlib.sha256(content).digest() != digest:
                return None
            os.utime(path)  # used last: kept longest
        except OSError:
            return None
        return content

    def write(self, name: str, content: bytes) -> None:
        """Keep an entry and drop those used longest ago beyond the bounds. A disk that does not take it is no error."""
        with contextlib.suppress(OSError):
            make_private_directory(self.directory)
            if self._is_ours() and len(content) <= MOST_BYTES * _KEPT_SHARE:
                write_atomically(self._path(name), hashlib.sha256(content).digest() + content)
                self._prune()

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}{_SUFFIX}"

    def _is_ours(self) -> bool:
        """Whether nobody else could have put an entry here: an answer of the gate is worth forging."""
        found = self.directory.stat()
        return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_MAY_WRITE

    def _prune(self) -> None:
        with os.scandir(self.directory) as listed:
            entries = [(each.stat().st_mtime_ns, each.stat().st_size, each.path) for each in listed if _is_entry(each)]
        if len(entries) <= MOST_ENTRIES and sum(size for _, size, _ in entries) <= MOST_BYTES:
            return
        count, total = 0, 0
        for _, size, path in sorted(entries, reverse=True):
            count, total = count + 1, total + size
            if count > MOST_ENTRIES * _KEPT_SHARE or total > MOST_BYTES * _KEPT_SHARE:
                Path(path).unlink(missing_ok=True)


def _is_entry(each: os.DirEntry[str]) -> bool:
    """Entries, and what a killed run left of one."""
    return _SUFFIX in each.name and each.is_file(follow_symlinks=False)


def user_cache(environ: Mapping[str, str] = os.environ) -> Cache:
    """`$RECONCILER_CACHE_DIR`, else the XDG cache directory."""
    chosen = environ.get(CACHE_VARIABLE)
    if chosen:
        return Cache(Path(chosen).absolute())
    import platformdirs  # noqa: PLC0415  # only where the variable is unset

    return Cache(Path(platformdirs.user_cache_dir("reconciler", appauthor=False)))
