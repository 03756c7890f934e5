"""Commits without git: trees by number, of which one is HEAD; the loader and the gate read them as they read git's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reconciler.errors import SourceError
from reconciler.sources.tree import CommitInfo, FileKind, Tree, TreeFile
from tests.builders import FLEET, H100, SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

NODE_SHAPE = {"gpus": 4, "gpu_class": H100, "memory_gib": 1024, "cpu_cores": 96}


@dataclass
class History:
    """A branch that can be committed to, pushed over and made unreadable."""

    files: dict[str, str] = field(default_factory=dict)
    """Of the newest commit, by path below `cluster/`."""
    trees: list[Tree] = field(default_factory=list)
    at: int = -1
    """Which of them is HEAD."""
    broken: str | None = None
    """Why git cannot be read at the moment."""

    def commit(self, subject: str, at: datetime) -> str:
        """Commit the files as they are, at this time of the author's clock; the commit's id."""
        entries = tuple(
            TreeFile(path, FileKind.FILE, text.encode(), len(text)) for path, text in sorted(self.files.items())
        )
        sha = f"{len(self.trees) + 1:07d}".ljust(40, "0")
        info = CommitInfo(sha, subject, "a. author", at)
        self.trees.append(Tree(entries, "cluster", info, f"tree-{sha[:7]}"))
        self.at = len(self.trees) - 1
        return sha

    def push_over(self, number: int) -> None:
        """Force-push an earlier commit, counted from 1."""
        self.at = number - 1
        tree = self.trees[self.at]
        self.files = {each.path: each.data.decode() for each in tree.files}

    def head(self, _directory: Path | None = None) -> str:
        """As `sources.repository.head`."""
        if self.broken is not None:
            raise SourceError(self.broken)
        commit = self.trees[self.at].commit
        assert commit is not None
        return commit.sha

    def read(self, _directory: Path, sha: str) -> Tree:
        """As `sources.repository.read_tree`."""
        if self.broken is not None:
            raise SourceError(self.broken)
        return self.trees[int(sha[:7]) - 1]


def fleet_file(**fields: Any) -> str:
    """cluster.yaml."""
    return json.dumps({"name": FLEET} | fields)


def pool_file(nodes: Mapping[str, Mapping[str, Any]], pool: str = "pool") -> str:
    """nodes/pool.yaml from `{n1: {gpus: 4}}`."""
    return json.dumps({"pool": pool, "nodes": [_node(name, each or {}) for name, each in nodes.items()]})


def _node(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    shape: dict[str, Any] = {**NODE_SHAPE, **given}
    gpus, gpu_class, _ = shape.pop("gpus"), shape.pop("gpu_class"), shape.pop("installed", None)
    node = {"name": name, "address": f"https://{name}.internal:7443"} | shape
    return node | ({"gpus": {"class": gpu_class, "count": gpus}} if gpus else {})


def model_file(name: str, given: Mapping[str, Any]) -> str:
    """models/NAME.yaml: `replicas`, `gpus`, `gpu_class` and `profile` go where they belong, the rest is as written."""
    spec: dict[str, Any] = {"name": name, "source": SOURCE, "context": 4096, "unverified": True} | dict(given)
    spec = {field: value for field, value in spec.items() if value is not None}
    gpus, gpu_class = spec.pop("gpus", 1), spec.pop("gpu_class", H100)
    profile: dict[str, Any] = {"name": "only", "engine": "vllm", "gpu_class": gpu_class, "gpus": gpus}
    if gpus == 0:
        profile = {"name": "only", "engine": "llamacpp", "memory_gib": 4, "cpu_cores": 2}
        spec["source"] = "file:/weights/model.gguf"
    profile |= spec.pop("profile", {})
    spec.setdefault("profiles", [profile])
    spec.setdefault("scaling", {"min": spec.pop("replicas", 1)})
    return json.dumps(spec)
