"""The files of a cluster directory as they lie on disk: what somebody is editing. No git is needed.

A work tree can change while it is read, so it is good for checking and showing, never for applying.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from reconciler.errors import SourceError
from reconciler.sources.tree import FILE_LIMIT_BYTES, FILES_LIMIT, TOTAL_LIMIT_BYTES, FileKind, Tree, TreeFile

_GIT = ".git"
# Not through a symlink put there in the meantime, and not waiting for the other end of a FIFO.
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_worktree(directory: Path) -> Tree:
    """Read every file under a directory; symlinks are listed, never followed. SourceError when it cannot be read."""
    top = Path(os.path.abspath(directory))  # noqa: PTH100  # Path.resolve would follow the symlinks that are refused below
    root = _git_root(top)
    _refuse_symlinks(top, root)
    if not top.is_dir():
        raise SourceError(f"there is no directory {directory}", hint="give the cluster directory with -C DIR")
    base = root or Path.cwd()
    prefix = os.path.relpath(top, base)
    try:
        files = _files(top)
    except OSError as error:
        raise SourceError(f"{error.filename} cannot be read: {error.strerror}") from error
    return Tree(tuple(sorted(files, key=lambda file: file.path)), "" if prefix == "." else Path(prefix).as_posix())


def _git_root(top: Path) -> Path | None:
    """The work tree that a directory lies in, by its `.git`."""
    return next((each for each in (top, *top.parents) if os.path.lexists(each / _GIT)), None)


def _refuse_symlinks(top: Path, root: Path | None) -> None:
    """A symlink in the place of the cluster directory could lead a check to any files of this machine."""
    inside = [each for each in top.parents if root is not None and root in each.parents]
    for each in (top, *inside):
        if each.is_symlink():
            raise SourceError(f"{each} is a symlink; symlinks are refused", hint="give the directory it points to")


def _files(top: Path) -> list[TreeFile]:
    files: list[TreeFile] = []
    pending = [""]
    total = 0
    while pending and len(files) <= FILES_LIMIT:
        folder = pending.pop()
        with os.scandir(top / folder) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if path == _GIT or len(files) > FILES_LIMIT:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    file = _file(entry, path, total)
                    total += file.size
                    files.append(file)
                elif os.path.lexists(os.path.join(entry.path, _GIT)):  # noqa: PTH118  # a Path for each entry costs more than the rest
                    files.append(TreeFile(path, FileKind.SUBMODULE, b"", 0))
                else:
                    pending.append(f"{path}/")
    return files


def _file(entry: os.DirEntry[str], path: str, total: int) -> TreeFile:
    if entry.is_symlink():
        return TreeFile(path, FileKind.SYMLINK, b"", 0)
    if not entry.is_file(follow_symlinks=False):
        return TreeFile(path, FileKind.OTHER, b"", 0)
    descriptor = os.open(entry.path, _OPEN)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123  # of a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return TreeFile(path, FileKind.OTHER, b"", 0)
        if status.st_size > FILE_LIMIT_BYTES or total + status.st_size > TOTAL_LIMIT_BYTES:
            return TreeFile(path, FileKind.FILE, b"", status.st_size)
        data = file.read(FILE_LIMIT_BYTES + 1)
    if len(data) > FILE_LIMIT_BYTES:
        return TreeFile(path, FileKind.FILE, b"", len(data))
    return TreeFile(path, FileKind.FILE, data, len(data))
