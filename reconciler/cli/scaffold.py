"""The files of a new configuration repository, from the templates beside this module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler import __version__
from reconciler.domain.base import NAME_PATTERN
from reconciler.durable import write_atomically
from reconciler.errors import ReconcilerError, UsageError
from reconciler.views.schemas import schema_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODE = 0o644
"""Everybody who works with the repository reads them."""
_EDITOR_SCHEMAS = ("cluster", "pool", "model")
"""Schemas of what people write: the first line of each file leads an editor to its own."""
_PLACE = re.compile(r"(?P<repository>[\w.-]+(?:/[\w.-]+)+)@(?P<ref>[\w./-]+)")
_OWNER = "OWNER/reconciler"
_UNSAFE = re.compile(r"[^A-Za-z0-9._/-]")


@dataclass(frozen=True, slots=True)
class Template:
    """One file to write, where it goes, and what it is for."""

    name: str
    path: str
    about: str


_ALWAYS = (
    Template("cluster.yaml", "@cluster@/cluster.yaml", "the fleet"),
    Template("node.yaml", "@cluster@/nodes/example.yaml", "a pool of nodes to start from"),
    Template("model.yaml", "@cluster@/models/example.yaml", "a model to start from; it is not run yet"),
    Template("pre-commit-config.yaml", ".pre-commit-config.yaml", "the gate before each commit"),
    Template("gitattributes", ".gitattributes", "the same bytes on every machine"),
    Template("README.md", "README.md", "what this repository is"),
)
_BY_FORGE = {
    "github": (
        Template("gate.yml", ".github/workflows/gate.yml", "the gate on every pull request"),
        Template("gate-comment.yml", ".github/workflows/gate-comment.yml", "its report as a comment"),
    ),
    "gitlab": (
        Template("gitlab.yml", ".gitlab/gate.yml", "the gate on every merge request"),
        Template("gitlab-ci.yml", ".gitlab-ci.yml", "runs it"),
    ),
    "none": (),
}


class Scaffold:
    """What the files are filled with. UsageError where the cluster directory or the place of the reconciler is none."""

    def __init__(self, fleet: str, cluster: Path, forge: str, uses: str | None) -> None:
        place = _PLACE.fullmatch(uses) if uses is not None else None
        if uses is not None and place is None:
            raise UsageError(f"{uses!r} names no reconciler", hint="write OWNER/REPO@COMMIT")
        self.cluster = cluster.as_posix()
        if cluster.is_absolute() or ".." in cluster.parts or not cluster.parts or _UNSAFE.search(self.cluster):
            raise UsageError(f"{cluster} cannot be the cluster directory of a new repository", hint="leave out -C")
        self.fleet = fleet
        self.templates = (*_ALWAYS[:3], *_BY_FORGE[forge], *_ALWAYS[3:])
        self.owner = _OWNER if place is None else place["repository"]
        self.ref = f"v{__version__}" if place is None else place["ref"]

    def files(self) -> Iterator[tuple[str, str, str]]:
        """Path, text and purpose of each file."""
        for each in self.templates:
            text = files("reconciler.cli").joinpath("templates", each.name).read_text("utf-8")
            yield self._filled(each.path), self._filled(text), each.about
        for name in _EDITOR_SCHEMAS:
            yield f"schemas/{name}.schema.json", schema_text(name), f"what editors know of a {name}'s fields"

    def _filled(self, text: str) -> str:
        up = "../" * len(Path(self.cluster).parts)
        for word, value in (
            ("@fleet@", self.fleet),
            ("@cluster@", self.cluster),
            ("@owner@", self.owner),
            ("@ref@", self.ref),
            ("@up@", up),
        ):
            text = text.replace(word, value)
        return text


def fleet_name(asked: str | None, directory: Path) -> str:
    """The name that was asked for, else the directory's own made into one; UsageError where it is none."""
    if asked is not None:
        if not re.fullmatch(NAME_PATTERN, asked):
            raise UsageError(f"{asked!r} is not a name", hint="lower-case letters, digits and ._- between them")
        return asked
    own = re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower()).strip("-")
    return own if re.fullmatch(NAME_PATTERN, own) else "fleet"


def existing(directory: Path, scaffold: Scaffold) -> list[Path]:
    """What is there already of the files to write, or stands where one of their directories would be."""
    there: dict[Path, None] = {}
    for name, _, _ in scaffold.files():
        path = directory / name
        steps = [each for each in path.parents if each.is_relative_to(directory) and each != directory]
        blocking = [each for each in steps if each.is_symlink() or (each.exists() and not each.is_dir())]
        there |= dict.fromkeys([*blocking, *([path] if path.exists() or path.is_symlink() else [])])
    if directory.exists() and not directory.is_dir():
        return [directory]
    return list(there)


def write(directory: Path, scaffold: Scaffold) -> Iterator[tuple[Path, str]]:
    """Write every file; each with its purpose, when it is there."""
    for name, text, about in scaffold.files():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text.encode(), mode=_MODE)
        except OSError as error:
            raise ReconcilerError(f"{path} cannot be written: {error.strerror}") from error
        yield path, about
