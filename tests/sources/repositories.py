"""Real git repositories for tests, made with a configuration and an identity of their own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.sources.trees import FLEET, MODEL

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A. Author",
    "GIT_AUTHOR_EMAIL": "author@example.com",
    "GIT_AUTHOR_DATE": "2026-11-30T12:00:00+01:00",
    "GIT_COMMITTER_NAME": "A. Committer",
    "GIT_COMMITTER_EMAIL": "committer@example.com",
    "GIT_COMMITTER_DATE": "2026-11-30T13:00:00+01:00",
}
FILES = {"cluster.yaml": FLEET, "models/llama.yaml": MODEL}


@dataclass(frozen=True)
class Repository:
    """A work tree with its repository."""

    top: Path

    @property
    def cluster(self) -> Path:
        return self.top / "cluster"

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run git in the work tree."""
        command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments]
        done = subprocess.run(command, cwd=self.top, env=ENVIRONMENT, input=stdin, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def write(self, path: str, text: str) -> Path:
        """Write a file of the cluster directory."""
        file = self.cluster / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def commit(self, message: str = "change") -> str:
        """Commit everything; the SHA."""
        self.git("add", "--all")
        self.git("commit", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def commit_entry(self, mode: str, path: str, content: bytes) -> str:
        """Commit an entry that a work tree would not make."""
        content_is_sha = mode == "160000"
        sha = content.decode() if content_is_sha else self.git("hash-object", "-w", "--stdin", stdin=content)
        self.git("update-index", "-z", "--index-info", stdin=f"{mode} {sha}\t".encode() + os.fsencode(path) + b"\0")
        self.git("commit", "-m", "entry")
        return self.git("rev-parse", "HEAD")


def a_repository(top: Path, *, form: str = "sha1") -> Repository:
    """A repository whose first commit holds a small fleet."""
    top.mkdir(parents=True, exist_ok=True)
    repository = Repository(top)
    repository.git("init", f"--object-format={form}")
    for path, text in FILES.items():
        repository.write(path, text)
    repository.commit("a fleet")
    return repository
