"""Reading what is staged: the blobs of git's index, which the next commit will hold. The work tree is not looked at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import SourceError
from reconciler.sources.git_command import INDEX_VARIABLE, line, output
from reconciler.sources.repository import Entry, Site, files_of, site_of, without_filters
from reconciler.sources.tree import FILES_LIMIT, Tree, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MERGED = "0"
"""The stage of an entry that is not in conflict."""


def read_staged(directory: Path, environ: Mapping[str, str] = os.environ) -> Tree:
    """All files of a cluster directory as they are staged; SourceError where they cannot be read or are in conflict.

    Inside a hook git may name another index than the usual one (`git commit FILE` does): it is the one that is read.
    What is announced with `git add --intent-to-add` has no content yet and is left out, as the commit leaves it out.
    """
    site = site_of(directory)
    if output(site.start, "rev-parse", "--is-inside-work-tree").strip() != b"true":
        raise SourceError("a bare repository has no index", hint="name a commit: --commit REV")
    top = Path(line(output(site.start, "rev-parse", "--show-toplevel")))
    entries = list(_entries(site, top, _index(site, environ)))
    if not entries:
        hint = "git add it, or give another directory with -C DIR"
        raise SourceError(f"nothing of {printable(site.prefix) or 'this repository'} is staged", hint=hint)
    return Tree(files_of(site, entries), site.prefix)


def _index(site: Site, environ: Mapping[str, str]) -> Path | None:
    """The index that git told a hook to use; None for the usual one. One of another repository is not ours."""
    named = environ.get(INDEX_VARIABLE)
    index = None if not named else Path(named).absolute()
    return index if index is not None and site.git_dir in index.resolve().parents else None


def _entries(site: Site, top: Path, index: Path | None) -> Iterator[Entry]:
    within = ("--", site.prefix or ".")
    listing = output(top, "ls-files", "--stage", "-z", "--full-name", *within, index=index)
    records = [record for record in listing.split(b"\0") if record][: FILES_LIMIT + 1]
    found = [(*facts.decode("ascii").split(), os.fsdecode(name)) for facts, _, name in map(_parted, records)]
    announced = _announced(site, top, index)
    sizes = _sizes(top, [sha for _, sha, _, _ in found])
    for mode, sha, stage, name in found:
        if stage != _MERGED:
            raise SourceError(f"{printable(name)} is in conflict", hint="merge it, then git add it")
        if name in announced:
            continue
        path = name.removeprefix(f"{site.prefix}/") if site.prefix else name
        if path == site.prefix:
            raise SourceError(f"{printable(site.prefix)} is not a directory in the index")
        yield Entry(mode, sha, sizes.get(sha, 0), path)


def _parted(record: bytes) -> tuple[bytes, bytes, bytes]:
    return record.partition(b"\t")


def _announced(site: Site, top: Path, index: Path | None) -> set[str]:
    """Files that are only announced: git calls them added in the work tree."""
    plain = ("--no-ext-diff", "--no-renames", "--ignore-submodules=all", "--diff-filter=A", "--name-only", "-z")
    listing = output(top, *without_filters(site.start), "diff-files", *plain, "--", site.prefix or ".", index=index)
    return {os.fsdecode(name) for name in listing.split(b"\0") if name}


def _sizes(top: Path, shas: list[str]) -> dict[str, int]:
    """Bytes by blob; a submodule's commit is not here and has none."""
    form = "--batch-check=%(objectname) %(objectsize)"
    told = output(top, "cat-file", form, given="".join(f"{sha}\n" for sha in dict.fromkeys(shas)).encode())
    pairs = (each.split() for each in told.decode("ascii", "replace").splitlines())
    return {sha: int(size) for sha, size in pairs if size.isdigit()}
