"""Files that are whole or absent, whatever dies in between: write beside, fsync, rename, fsync the directory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

PRIVATE = 0o600


def write_atomically(path: Path, data: bytes, *, mode: int = PRIVATE) -> None:
    """Replace `path` by `data`, or leave it as it was: OSError (disk full, no permission) changes nothing.

    The directory must exist. `mode` is for the file; the default lets only its owner read it.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
    _sync_directory(path.parent)


def make_private_directory(path: Path) -> None:
    """Make a directory, and what is missing above it, that only its owner can enter."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def _sync_directory(path: Path) -> None:
    """So that the rename itself survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
