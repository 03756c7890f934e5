"""A real git repository in a temporary directory."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Repository:
    """One repository with a work tree."""

    IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example", "-c", "commit.gpgsign=false")

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        """Run git; its output."""
        return subprocess.run(
            ["git", *self.IDENTITY, *words], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout

    def write(self, files: Mapping[str, str]) -> None:
        """Write files by path."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")

    def commit(self, files: Mapping[str, str], message: str) -> None:
        """Write files and commit everything."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "-q", "-m", message)
