"""What an answer of the gate depends on besides the files: this tool, Python, and the packages that read for it."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import reconciler

if TYPE_CHECKING:
    from collections.abc import Iterator

_READS_WITH = ("pydantic", "pydantic_core", "ruamel.yaml", "_ruamel_yaml")
"""Packages that decide what a document says."""


def tool_stamp() -> str:
    """32 hex digits that differ when a file of this package, one of those it reads with, or Python does.

    Files by size and time, not by content: a checkout that is being worked on is another version with every edit.
    """
    told = [reconciler.__version__, sys.version]
    told += [f"{name} {each.st_size} {each.st_mtime_ns}" for name, each in _own_files(Path(reconciler.__file__).parent)]
    for name in _READS_WITH:
        found = find_spec(name)
        if found is not None and found.origin is not None:
            status = os.stat(found.origin)  # noqa: PTH116  # a Path for each would cost more than the look
            told.append(f"{found.origin} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:32]


def _own_files(package: Path) -> Iterator[tuple[str, os.stat_result]]:
    folders = [str(package)]
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            for each in sorted(entries, key=lambda entry: entry.name):
                if each.is_dir(follow_symlinks=False):
                    if each.name != "__pycache__":
                        folders.append(each.path)
                else:
                    yield each.path, each.stat(follow_symlinks=False)
