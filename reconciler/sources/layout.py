"""Where each file of `cluster/` belongs: what it is read as, or why it is not read. Every file is one or the other."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal, assert_never

from reconciler.domain.finding import Severity
from reconciler.sources.fault import Fault, YamlRule
from reconciler.sources.tree import FILE_LIMIT_BYTES, FILES_LIMIT, FileKind, TreeFile

FLEET_FILE = "cluster.yaml"
FLEET_STEM = "cluster"

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_YAML = ".yaml"
# Emacs marks an open file with a dangling symlink of this name beside it; git never sees one.
_EDITOR_LOCK = ".#"


class Role(StrEnum):
    """What a file is read as."""

    FLEET = "fleet"
    POOL = "pool"
    MODEL = "model"
    LOCK = "lock"


def role_of(file: TreeFile) -> Role | Fault:
    """What a file is, by its kind and its place."""
    return _refusal(file) or _placed(file.path)


@lru_cache(maxsize=FILES_LIMIT)
def stem_of(path: str) -> str:
    """The name that a file's name gives: `models/a/llama.yaml` → llama."""
    # As PurePosixPath(path).stem, without making one, and kept: it is asked of every file on every look at a commit.
    name = path.rpartition("/")[2]
    end = name.rfind(".")
    return name[:end] if 0 < end < len(name) - 1 else name


def _refusal(file: TreeFile) -> Fault | None:
    """Why a file is not even looked at."""
    if file.kind is not FileKind.FILE:
        return _no_file(file.path, file.kind)
    if not file.path.isprintable():
        hint = "rename it"
        return Fault(YamlRule.NOT_A_FILE, "the file's name holds control characters or is not UTF-8", hint)
    if file.size > FILE_LIMIT_BYTES:
        size = f"{file.size / 1024:,.0f} KiB"
        message = f"the file has {size}; at most {FILE_LIMIT_BYTES // 1024} KiB are read"
        return Fault(YamlRule.TOO_LARGE, message, "split it, or keep it outside the cluster directory")
    if file.data.startswith(_LFS_POINTER):
        hint = "keep files of the cluster directory out of Git LFS (.gitattributes)"
        return Fault(YamlRule.NOT_A_FILE, "this is a Git LFS pointer, not the file itself", hint, 1, 1)
    return None


def _no_file(path: str, kind: Literal[FileKind.SYMLINK, FileKind.SUBMODULE, FileKind.OTHER]) -> Fault:
    match kind:
        case FileKind.SYMLINK if path.rpartition("/")[2].startswith(_EDITOR_LOCK):
            return _ignored()
        case FileKind.SYMLINK:
            return Fault(YamlRule.NOT_A_FILE, "symlinks are refused", "put the file itself here")
        case FileKind.SUBMODULE:
            return Fault(YamlRule.NOT_A_FILE, "a repository inside the cluster directory is refused", "move it out")
        case FileKind.OTHER:
            return Fault(YamlRule.NOT_A_FILE, "this is a device, socket or FIFO, not a file", "remove it")
        case _ as never:
            assert_never(never)


@lru_cache(maxsize=FILES_LIMIT)
def _placed(name: str) -> Role | Fault:
    """By its place alone; kept, because `run` asks of every file on every look at a commit."""
    path = PurePosixPath(name)
    folder = path.parts[0] if len(path.parts) > 1 else ""
    suffix = path.suffix
    match folder, suffix.lower():
        case "models" | "nodes", ".yaml" | ".yml" | ".json":
            if suffix == _YAML:
                return Role.MODEL if folder == "models" else Role.POOL
            hint = f"rename it to {path.with_suffix(_YAML).name}; JSON is YAML too"
            return Fault(YamlRule.NOT_A_FILE, f"files under {folder}/ end in {_YAML}", hint)
        case "locks", ".json" if suffix == ".json" and len(path.parts) == len(("locks", "NAME.json")):
            return Role.LOCK
        case "locks", ".yaml" | ".yml" | ".json":
            hint = "remove it, and run `reconciler lock` to write the lock"
            return Fault(YamlRule.NOT_A_FILE, "locks are locks/NAME.json", hint)
        case "", _ if path.name == FLEET_FILE:
            return Role.FLEET
        case "", ".yaml" | ".yml" if path.stem.lower() == FLEET_STEM:
            return Fault(YamlRule.NOT_A_FILE, f"the fleet is read from {FLEET_FILE}", f"rename it to {FLEET_FILE}")
        case _, ".yaml" | ".yml" if not any(part.startswith(".") for part in path.parts):
            hint = "move it under models/ (a model) or nodes/ (a pool), or remove it"
            return Fault(YamlRule.NOT_A_FILE, "no YAML is read from here", hint)
        case _:
            return _ignored()


def _ignored() -> Fault:
    """Said of every file that is none of ours, so that a file is never passed over in silence."""
    return Fault(YamlRule.NOT_A_FILE, "not part of the fleet, not read", severity=Severity.NOTE)
