"""Which commit `run` works on: the newest that passes the gate; a bad or unreadable one changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.controller.aim import aim_of
from reconciler.controller.memory import Memory
from reconciler.controller.state import read_aim
from reconciler.errors import InvalidCluster, SourceError
from reconciler.sources.repository import head, read_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reconciler.controller.aim import Aim
    from reconciler.sources.tree import Tree


@dataclass(slots=True)
class Commits:
    """Reads HEAD of the local repository and holds the last good aim."""

    directory: Path
    said: Callable[[str], None]
    """Told about every commit that was not taken, and why."""
    aim: Aim | None = None
    head: Callable[[Path], str] = head
    read: Callable[[Path, str], Tree] = read_tree
    """Where commits come from: git, or the history that a simulation tells."""
    _seen: str | None = None
    _trouble: str | None = None
    _memory: Memory = field(default_factory=Memory)
    """A commit changes few files: the rest is not read and judged again."""

    def resume(self, state: Path) -> None:
        """After a start whose HEAD is bad: go on with the commit that was last made real here."""
        record = read_aim(state)
        if self.aim is not None or record is None:
            return
        try:
            self.aim = aim_of(self.read(self.directory, record.commit))
        except SourceError as error:
            self.said(f"the last good commit {record.commit[:7]} cannot be read: {error.message}")
        else:
            self.said(f"going on with the last good commit {record.commit[:7]}")

    def look(self) -> bool:
        """Whether there is a new aim: HEAD moved to a commit that passes the gate. Never raises for a bad commit."""
        sha = ""
        try:
            sha = self.head(self.directory)
            if sha == self._seen:
                return False
            self.aim = aim_of(self.read(self.directory, sha), self._memory)
        except InvalidCluster as error:
            self._seen = sha
            self._refuse(sha, error)
            return False
        except SourceError as error:
            self._complain(error)
            return False
        self._seen, self._trouble = sha, None
        return True

    def _complain(self, error: SourceError) -> None:
        """Say that HEAD cannot be read: once, not on every look."""
        if error.message != self._trouble:
            self._trouble = error.message
            self.said(f"{error.message}; going on with what was last read")

    def _refuse(self, sha: str, error: InvalidCluster) -> None:
        kept = f"going on with {self.aim.sha[:7]}" if self.aim and self.aim.sha else "waiting for a commit that passes"
        self.said(f"commit {sha[:7]} does not pass the gate; {kept}")
        for finding in error.findings:
            if finding.severity == "error":
                fix = f" (fix: {finding.hint})" if finding.hint else ""
                self.said(f"  {finding.rule} {finding.file}:{finding.line}:{finding.column} {finding.message}{fix}")
