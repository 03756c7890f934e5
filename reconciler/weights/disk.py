"""Files of `file:` and `package:` sources: on this machine. Nothing of where they lie here gets into a lock."""

from __future__ import annotations

import hashlib
import re
from importlib import metadata
from typing import TYPE_CHECKING

from reconciler.domain.base import digest
from reconciler.errors import WeightsError
from reconciler.weights.locate import locate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reconciler.domain.lock import LockedFile
    from reconciler.domain.source import FileSource, PackageSource
    from reconciler.weights.meter import Meter

_HASHED_AT_ONCE = 4 * 2**20
_CARD = "README.md"
_CARD_BYTES = 2**16
"""Front matter stands at the top."""
_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(r"^license(?P<name>_name)?:[ \t]*[\"']?(?P<value>[\w.+-]+)", re.MULTILINE)


def open_file(source: FileSource, text: str, meter: Meter) -> DiskFiles:
    """The file or directory of a `file:` source."""
    place = locate(text)
    if place.is_dir():
        files = DiskFiles(place, text, named=None, version=None, meter=meter)
        files.licence = _licence_on_card(files)
        return files
    return DiskFiles(place.parent, text, named=source.path.rpartition("/")[2], version=None, meter=meter)


def open_package(source: PackageSource, text: str, meter: Meter) -> DiskFiles:
    """The file of a `package:` source, with what lies beside it in the package."""
    place = locate(text)
    root = place.parents[source.path.rstrip("/").count("/")]
    name = _distribution(source.package)
    files = DiskFiles(root, text, named=source.path, version=f"{name}=={metadata.version(name)}", meter=meter)
    files.licence = _licence_of(name)
    return files


class DiskFiles:
    """Files below one directory; with a `version` (a package's), what leads out of it is refused."""

    def __init__(self, root: Path, shown: str, *, named: str | None, version: str | None, meter: Meter) -> None:
        self.shown = shown
        self.named = named
        self.licence: str | None = None
        self._root = root
        self._version = version
        self._meter = meter
        self._digests: dict[str, str] = {}

    def paths(self) -> tuple[str, ...]:
        """The files of the directory itself, as engines look for them; not those further down."""
        folder = self.named.rpartition("/")[0] if self.named else ""
        try:
            names = sorted(each.name for each in (self._root / folder).iterdir() if each.is_file())
        except OSError as error:
            raise self._unreadable(error) from error
        return tuple(f"{folder}/{name}" if folder else name for name in names)

    def size(self, path: str) -> int | None:
        """Bytes of a file; None where there is none."""
        try:
            place = self._place(path)
            return place.stat().st_size if place.is_file() else None
        except OSError as error:
            raise self._unreadable(error) from error

    def read(self, path: str, start: int, length: int) -> bytes:
        """Exactly so many bytes, or up to the end of the file."""
        try:
            with self._place(path).open("rb") as file:
                file.seek(start)
                data = file.read(length)
        except OSError as error:
            raise self._unreadable(error) from error
        self._meter.read(path, len(data))
        return data

    def digest(self, path: str) -> str | None:
        """Its sha256, over all of it: the only way to see that a file on disk is another one."""
        if path not in self._digests:
            made = hashlib.sha256()
            try:
                with self._place(path).open("rb") as file:
                    while part := file.read(_HASHED_AT_ONCE):
                        made.update(part)
                        self._meter.read(path, len(part))
            except OSError as error:
                raise self._unreadable(error) from error
            self._digests[path] = made.hexdigest()
        return self._digests[path]

    def revision(self, files: Sequence[LockedFile]) -> str:
        """A package's version; else the file's sha256, or the sha256 over those of all files."""
        if self._version is not None:
            return self._version
        if self.named is not None and len(files) == 1:
            return f"sha256:{files[0].sha256}"
        return f"sha256:{digest([[file.path, file.sha256] for file in files])}"

    def _place(self, path: str) -> Path:
        place = self._root / path
        if self._version is not None and not place.resolve().is_relative_to(self._root.resolve()):
            raise WeightsError(f"{path} of {self.shown} leaves the package")
        return place

    def _unreadable(self, error: OSError) -> WeightsError:
        return WeightsError(f"{self.shown} cannot be read: {error.strerror}")


def _licence_on_card(files: DiskFiles) -> str | None:
    """What the front matter of a model card says, if there is one."""
    if files.size(_CARD) is None:
        return None
    front = _FRONT_MATTER.search(files.read(_CARD, 0, _CARD_BYTES).decode("utf-8", errors="replace"))
    told = {found["name"]: found["value"] for found in _LICENCE.finditer(front[1])} if front else {}
    return told.get("_name") if told.get(None) == "other" and "_name" in told else told.get(None)


def _distribution(package: str) -> str:
    """Name of the distribution that carries a package, as its metadata write it."""
    top = package.partition(".")[0]
    names = metadata.packages_distributions().get(top, [])
    if len(set(names)) > 1:
        raise WeightsError(f"the package {top} comes from several distributions: {', '.join(sorted(set(names)))}")
    if not names:
        raise WeightsError(f"the package {top} belongs to no installed distribution, so it has no version to lock")
    return names[0]


def _licence_of(distribution: str) -> str | None:
    told = metadata.metadata(distribution)
    stated = (told[field] for field in ("License-Expression", "License") if field in told)
    return next(stated, None)
