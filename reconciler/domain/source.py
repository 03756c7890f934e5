"""Where weights come from, as a string: `hf:ORG/NAME@REVISION[#path]`, `https://…`, `file:/…`, `package:NAME/PATH`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

SOURCE_FORMS = "hf:ORG/NAME@REVISION, https://…, file:/… or package:NAME/PATH"

_HUB = re.compile(r"^(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w./-]+))?(#(?P<path>[^\s#]+))?$")
_PACKAGE = re.compile(r"^(?P<package>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)/(?P<path>[^\s]+)$")


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository on a hub; `revision` is None when it is not pinned, `path` one file of it."""

    repo: str
    revision: str | None
    path: str | None


@dataclass(frozen=True, slots=True)
class HttpsSource:
    """One file behind a URL."""

    url: str


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file or directory on the node, by absolute path."""

    path: str


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A file that an installed Python package carries; `path` is relative to the package."""

    package: str
    path: str


Source = HubSource | HttpsSource | FileSource | PackageSource


def parse_source(text: str) -> Source:
    """Read a source string; ValueError says which form was expected."""
    scheme, colon, rest = text.partition(":")
    if not colon:
        raise ValueError(f"expected {SOURCE_FORMS}")
    match scheme:
        case "hf":
            return _hub(rest)
        case "https":
            if not re.fullmatch(r"^//[^\s/]+/\S+$", rest):
                raise ValueError("expected https://HOST/PATH")
            return HttpsSource(text)
        case "file":
            return _file(rest)
        case "package":
            return _package(rest)
        case "http":
            raise ValueError("plain http is refused for weights; use https")
        case _:
            raise ValueError(f"{scheme!r} is not a kind of source; expected {SOURCE_FORMS}")


def _hub(rest: str) -> HubSource:
    found = _HUB.fullmatch(rest)
    if found is None or _climbs(found["path"] or ""):
        raise ValueError("expected hf:ORG/NAME@REVISION, optionally followed by #path/to/file.gguf")
    return HubSource(found["repo"], found["revision"], found["path"])


def _file(rest: str) -> FileSource:
    path = rest.removeprefix("//") if rest.startswith("///") else rest
    if not path.startswith("/") or _climbs(path) or path.endswith("/") or not path.isprintable():
        raise ValueError("expected file:/ABSOLUTE/PATH without '..'")
    return FileSource(path)


def _package(rest: str) -> PackageSource:
    found = _PACKAGE.fullmatch(rest)
    if found is None or _climbs(found["path"]):
        raise ValueError("expected package:PYTHON_PACKAGE/PATH/IN/IT without '..'")
    return PackageSource(found["package"], found["path"])


def _climbs(path: str) -> bool:
    return ".." in path.split("/")


def _checked(text: str) -> str:
    try:
        parse_source(text)
    except ValueError as error:
        raise PydanticCustomError("source", "{reason}", {"reason": str(error)}) from error
    return text


SourceText = Annotated[
    str, AfterValidator(_checked), WithJsonSchema({"type": "string", "pattern": "^(hf:|https://|file:|package:)"})
]
"""A source as written, checked to be one of the four forms."""
