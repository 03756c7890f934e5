"""What was read: the files of one cluster directory as bytes, from one commit or from the work tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

# The limits of design section 3. A file of hand-written YAML is a few kilobytes; the limits bound what a hostile or
# mistaken commit can make the reconciler read into memory.
FILE_LIMIT_BYTES = 256 * 1024
FILES_LIMIT = 10_000
TOTAL_LIMIT_BYTES = 64 * 1024 * 1024


class FileKind(StrEnum):
    """What stands at a path; only files are ever read."""

    FILE = "file"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    """A git submodule, or another repository inside the work tree."""
    OTHER = "other"
    """A device, a socket or a FIFO in the work tree."""


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One entry of the tree; `data` is empty where it was not read: no file, or over a limit."""

    path: str
    """Posix, relative to the cluster directory; bytes that are not UTF-8 stand as surrogates."""
    kind: FileKind
    data: bytes
    size: int
    """Bytes, also where `data` is empty."""


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """The commit that a tree was read from."""

    sha: str
    subject: str
    author: str
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Tree:
    """All files under one cluster directory, sorted by path.

    Over FILES_LIMIT the rest is not listed, so that a tree of more files is known to be too large and to be incomplete.
    """

    files: tuple[TreeFile, ...]
    prefix: str
    """The cluster directory relative to the git root, else to the working directory; posix, empty for the root."""
    commit: CommitInfo | None = None
    """None for the work tree."""
    tree_id: str | None = None
    """Git's id of the cluster directory's tree: the same id is the same content."""

    def shown(self, path: str) -> str:
        """How people are told of a file: with the prefix, and safe to print."""
        return printable(f"{self.prefix}/{path}" if self.prefix and path else self.prefix or path)


def printable(text: str) -> str:
    r"""Escape what could break a line, a terminal or UTF-8: control characters and undecodable bytes (`\xff`)."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    raw = char.encode("utf-8", "surrogateescape") if "\udc80" <= char <= "\udcff" else char.encode("unicode_escape")
    return raw.decode("ascii", "backslashreplace")
