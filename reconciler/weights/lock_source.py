"""One source → what it is found to be: where its files lie, and which format they are in."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, assert_never

from reconciler.domain.source import FileSource, HttpsSource, HubSource, PackageSource, parse_source
from reconciler.weights.adapter import lock_adapter
from reconciler.weights.checkpoint import ADAPTER_CONFIG, lock_checkpoint, lock_weight_file
from reconciler.weights.disk import open_file, open_package
from reconciler.weights.files import beside
from reconciler.weights.gguf_source import lock_gguf
from reconciler.weights.https_files import HttpsFiles
from reconciler.weights.hub import Hub, HubFiles, hub_of_environment

if TYPE_CHECKING:
    from reconciler.domain.lock import LockedSource
    from reconciler.weights.files import Files
    from reconciler.weights.web import Web


class Role(StrEnum):
    """What a source is for: an adapter may lie in a repository that would not do as a model."""

    MODEL = "model"
    ADAPTER = "adapter"


@dataclass
class Access:
    """How sources are reached in one run."""

    web: Web
    given: Hub | None = field(default=None)
    """The hub; without it that of the environment, looked up when the first hub source is met."""

    @cached_property
    def hub(self) -> Hub:
        """Where hf: sources are asked for."""
        return self.given or hub_of_environment()


def lock_source(source: str, role: Role, access: Access, *, revision: str | None = None) -> LockedSource:
    """Look at a source as it is now, of a hub at `revision` where given; WeightsError says what is in the way."""
    files = _open(source, access, revision)
    path = files.named
    if path is None:
        return lock_adapter(files, source) if role is Role.ADAPTER else lock_checkpoint(files, source)
    if path.endswith(".gguf"):
        return lock_gguf(files, source, path)
    if role is Role.ADAPTER or files.size(beside(files, ADAPTER_CONFIG)) is not None:
        return lock_adapter(files, source)
    return lock_weight_file(files, source, path)


def _open(source: str, access: Access, revision: str | None) -> Files:
    parsed = parse_source(source)
    match parsed:
        case HubSource():
            return HubFiles(parsed, revision or parsed.revision, source, access.hub, access.web)
        case HttpsSource():
            return HttpsFiles(parsed.url, access.web)
        case FileSource():
            return open_file(parsed, source, access.web.meter)
        case PackageSource():
            return open_package(parsed, source, access.web.meter)
        case _ as never:
            assert_never(never)
