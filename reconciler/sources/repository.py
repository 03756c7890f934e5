"""Reading one commit of the local repository. The only module that knows GitPython.

GitPython is used for one thing, copying blobs out by SHA: it has had too many advisories to be trusted with names,
options or configuration. Everything else asks git itself, through `git_command`.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import NotInCommit, SourceError
from reconciler.sources.git_command import NO_REPOSITORY, SETTINGS, line, output, refuse_unreadable, run
from reconciler.sources.recent import Recent
from reconciler.sources.tree import (
    FILE_LIMIT_BYTES,
    FILES_LIMIT,
    TOTAL_LIMIT_BYTES,
    CommitInfo,
    FileKind,
    Tree,
    TreeFile,
    printable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHA = re.compile(r"[0-9a-f]{40,64}")
_SHA1_DIGITS = 40
ELSEWHERE = "give the cluster directory with -C DIR"
"""What a person does about a directory that is not there."""

_SYMLINK, _SUBMODULE, _TREE = "120000", "160000", "040000"


@dataclass(frozen=True, slots=True)
class Site:
    """Where a cluster directory lies; it need not exist in the work tree."""

    start: Path
    """Where git is started."""
    common_dir: Path
    git_dir: Path
    prefix: str
    rest: str
    """What of the directory lies below `start`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a listing: a blob, or a submodule's commit."""

    mode: str
    sha: str
    size: int
    path: str


def read_tree(directory: Path, revision: str = "HEAD", blobs: Recent[str, bytes] | None = None) -> Tree:
    """All files of a cluster directory in one commit; what cannot be read is a SourceError, never an empty tree.

    `blobs` holds those that were read before, by their SHA, and keeps what is read now.
    """
    site = site_of(directory)
    sha = _resolve(site.start, revision)
    tree_id, entries = _entries(site, sha)
    return Tree(files_of(site, entries, blobs), site.prefix, _commit_info(site, sha), tree_id)


def head(directory: Path) -> str:
    """The SHA that HEAD stands for now."""
    with _asking_about(directory):
        return _resolve(_start(directory), "HEAD")


def git_dir(directory: Path) -> Path:
    """The repository's own directory for this work tree: where HEAD is."""
    return site_of(directory).git_dir


def common_dir(directory: Path) -> Path:
    """The repository's directory for all its work trees: where refs are."""
    return site_of(directory).common_dir


def uncommitted(directory: Path, commit: str) -> tuple[str, ...]:
    """Files under the cluster directory that differ between the work tree and a commit, as people name them, sorted.

    Staged, unstaged and untracked alike; what git ignores is left out. In a bare repository there are none.
    """
    site = site_of(directory)
    sha = _resolve(site.start, commit)
    if output(site.start, "rev-parse", "--is-inside-work-tree").strip() != b"true":
        return ()
    top = line(output(site.start, "rev-parse", "--show-toplevel"))
    within = ("--", site.prefix or ".")
    plain = ("--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=all")
    changed = output(
        Path(top), *without_filters(site.start), "diff", "--name-only", "--no-relative", "-z", *plain, sha, *within
    )
    added = output(Path(top), "ls-files", "--others", "--exclude-standard", "--full-name", "-z", *within)
    names = {os.fsdecode(name) for name in (changed + added).split(b"\0") if name}
    return tuple(sorted(printable(name) for name in names))


def without_filters(start: Path) -> list[str]:
    """Options that switch off every filter program: a file in the repository could otherwise name one to be run."""
    told = run(start, "config", "--name-only", "--get-regexp", r"^filter\.").stdout.decode("utf-8", "replace")
    drivers = sorted({name.rpartition(".")[0] for name in told.splitlines()})
    off = ("clean=", "smudge=", "process=", "required=false")
    return [word for driver in drivers for setting in off for word in ("-c", f"{driver}.{setting}")]


def _top(directory: Path) -> Path:
    return Path(os.path.abspath(directory))  # noqa: PTH100  # Path.resolve would follow a symlink out of the repository


@contextmanager
def _asking_about(directory: Path) -> Iterator[None]:
    """Where there is no repository because there is no such directory, say that."""
    try:
        yield
    except SourceError as error:
        if error.message != NO_REPOSITORY or _exists(directory):
            raise
        raise SourceError(f"there is no directory {printable(str(directory))}", hint=ELSEWHERE) from error


def _exists(directory: Path) -> bool:
    return os.path.lexists(_top(directory))


def _start(directory: Path) -> Path:
    """The nearest directory that exists: a commit can hold a directory that the work tree lacks."""
    top = _top(directory)
    return next(each for each in (top, *top.parents) if each.is_dir() and not each.is_symlink())


def site_of(directory: Path) -> Site:
    """Find the repository that a cluster directory lies in, by the nearest directory that exists."""
    start = _start(directory)
    with _asking_about(directory):
        lines = output(start, "rev-parse", "--git-dir", "--git-common-dir", "--show-prefix").split(b"\n")
    own, common, prefix = (os.fsdecode(each) for each in lines[:3])
    rest = _top(directory).relative_to(start).as_posix()
    inside = [part for part in (prefix.rstrip("/"), "" if rest == "." else rest) if part]
    return Site(start, (start / common).resolve(), (start / own).resolve(), "/".join(inside), rest)


def _resolve(start: Path, revision: str) -> str:
    """A revision that a person gave → the SHA of its commit."""
    if not revision.isprintable() or not revision or revision.startswith("-"):
        raise SourceError(f"{printable(revision)!r} is not a revision", hint="give a branch, a tag or a commit's SHA")
    completed = run(start, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    sha = line(completed.stdout)
    if completed.returncode == 0 and _SHA.fullmatch(sha):
        if b"is ambiguous" in completed.stderr and revision != "HEAD":
            raise SourceError(f"{revision} is both a branch and a tag", hint=f"give refs/heads/{revision}")
        return sha
    refuse_unreadable(completed)
    if revision == "HEAD":
        hint = "commit the cluster directory, or look at the work tree with plan --worktree"
        raise SourceError("there is no commit yet", hint=hint)
    shallow = line(output(start, "rev-parse", "--is-shallow-repository")) == "true"
    hint = "this clone is shallow: git fetch --unshallow gets the rest" if shallow else "git log lists commits"
    raise SourceError(f"there is no commit {revision}", hint=hint)


def _commit_info(site: Site, sha: str) -> CommitInfo:
    form = "--format=%an%x00%ct%x00%s"
    shown = output(site.start, "log", "-1", "--no-show-signature", "--no-notes", "--no-color", form, sha, "--")
    author, seconds, subject = shown.decode("utf-8", "replace").rstrip("\n").split("\0", 2)
    try:
        committed_at = datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        committed_at = datetime.fromtimestamp(0, UTC)  # a commit can claim any time
    return CommitInfo(sha, printable(subject), printable(author), committed_at)


def _entries(site: Site, sha: str) -> tuple[str, list[Entry]]:
    """The id of the cluster directory's tree, and what is in it; at most one entry more than may be."""
    if not site.prefix:
        tree_id = line(output(site.start, "rev-parse", "--verify", f"{sha}^{{tree}}"))
    else:
        found = [*_listed(output(site.start, "ls-tree", "-z", "-l", "--full-tree", sha, "--", site.prefix))]
        if not found:
            if not _exists(site.start / site.rest):
                told = f"there is no directory {printable(site.prefix)}, neither here nor in commit {sha[:8]}"
                raise NotInCommit(told, hint=ELSEWHERE)
            hint = "commit it, or give another directory with -C DIR"
            raise NotInCommit(f"{printable(site.prefix)} is not in commit {sha[:8]}", hint=hint)
        if found[0].mode != _TREE:
            raise SourceError(f"{printable(site.prefix)} is not a directory in commit {sha[:8]}")
        tree_id = found[0].sha
    entries = []
    for entry in _listed(output(site.start, "ls-tree", "-r", "-z", "-l", "--full-tree", tree_id)):
        entries.append(entry)
        if len(entries) > FILES_LIMIT:
            break
    return tree_id, entries


def _listed(listing: bytes) -> Iterator[Entry]:
    for record in listing.split(b"\0"):
        if record:
            facts, _, name = record.partition(b"\t")
            mode, _, sha, size = facts.decode("ascii").split()
            yield Entry(mode, sha, int(size) if size.isdigit() else 0, os.fsdecode(name))


def files_of(site: Site, entries: list[Entry], blobs: Recent[str, bytes] | None = None) -> tuple[TreeFile, ...]:
    """The files with their bytes, as far as the limits allow."""
    wanted: dict[str, str] = {}
    total = 0
    for entry in entries:
        total += entry.size
        if _kind(entry) is FileKind.FILE and entry.size <= FILE_LIMIT_BYTES and total <= TOTAL_LIMIT_BYTES:
            wanted[entry.path] = entry.sha
    data_by_sha = _known_or_read(site, set(wanted.values()), Recent() if blobs is None else blobs)
    files = [
        TreeFile(entry.path, _kind(entry), data_by_sha[wanted[entry.path]] if entry.path in wanted else b"", entry.size)
        for entry in entries
    ]
    return tuple(sorted(files, key=lambda file: file.path))


def _kind(entry: Entry) -> FileKind:
    if entry.mode == _SYMLINK:
        return FileKind.SYMLINK
    return FileKind.SUBMODULE if entry.mode == _SUBMODULE else FileKind.FILE


def _known_or_read(site: Site, shas: set[str], blobs: Recent[str, bytes]) -> dict[str, bytes]:
    known = {sha: data for sha in shas if (data := blobs.find(sha)) is not None}
    new = _blobs(site, shas - known.keys())
    for sha, data in new.items():
        blobs.keep(sha, data)
    return known | new


def _blobs(site: Site, shas: set[str]) -> dict[str, bytes]:
    """Copy blobs out; no object of GitPython, nor an exception that holds one, leaves this function."""
    if any(len(sha) > _SHA1_DIGITS for sha in shas):
        hint = "use a repository with SHA-1 names, as git init makes them"
        raise SourceError("this repository names its objects by SHA-256, which is not read", hint=hint)
    if not shas:
        return {}
    from git import Repo  # noqa: PLC0415  # costs 80 ms and fails without git; only reading a commit needs it
    from git.exc import GitError, ODBError  # noqa: PLC0415  # as above

    data_by_sha: dict[str, bytes] = {}
    failure = ""
    try:
        with Repo(site.common_dir) as repo:
            repo.git.update_environment(**SETTINGS, GIT_DIR=str(site.common_dir))
            for sha in sorted(shas):
                data_by_sha[sha] = repo.odb.stream(bytes.fromhex(sha)).read()
    except (GitError, ODBError, ValueError, OSError) as error:
        failure = type(error).__name__
    if failure:
        hint = "git fsck tells more; a partial clone lacks objects"
        raise SourceError(f"a file of the commit cannot be read ({failure})", hint=hint)
    return data_by_sha
