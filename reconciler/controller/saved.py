"""JSON that commands write for later commands: canonical, private, whole or absent; and read back with suspicion."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from reconciler.domain.base import FORMAT_VERSION, canonical_json
from reconciler.durable import write_atomically
from reconciler.errors import SourceError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

Model = TypeVar("Model", bound=BaseModel)

LARGEST_BYTES = 256 * 1024 * 1024
"""An observation of 10,000 nodes takes about 60 MB; more is not one of ours."""


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write canonical JSON that only its owner reads, whole or not at all; SourceError when the disk fails."""
    try:
        write_atomically(path, canonical_json(content) + b"\n")
    except OSError as error:
        raise SourceError(f"{path} cannot be written: {error.strerror}") from error


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in a file; UsageError where there is none, `what` saying what was expected."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is not a {what}")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a {what}: it is not JSON") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not a {what}")
    return content


def check_version(path: Path, content: dict[str, Any]) -> None:
    """UsageError for a format of another major version, or of a newer minor one: its fields would not be understood."""
    told = content.get("format_version", FORMAT_VERSION)
    ours = _numbers(FORMAT_VERSION)
    theirs = _numbers(told) if isinstance(told, str) else ()
    if not theirs:
        raise UsageError(f"{path} has no format version that can be read: {told!r}")
    if theirs > ours or theirs[0] != ours[0]:
        raise UsageError(
            f"{path} has format {told}, and this reconciler reads {FORMAT_VERSION}",
            hint="make it again with this version, or use the version that wrote it",
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Empty where it is no version."""
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isascii() and part.isdigit() for part in parts) else ()


def parsed(model: type[Model], path: Path, content: dict[str, Any]) -> Model:
    """The content as a value; UsageError that names the first field that is wrong."""
    try:
        return model.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path} cannot be understood: {where}: {first['msg']}") from error
