"""The engines' log files, `logs/<model>-<ordinal>@<p>.log`: kept past their replica, and kept within bounds."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.agent.journal import file_stem
from reconciler.durable import PRIVATE, make_private_directory
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES = 32 * 2**20
"""Of one log: a day of an engine that writes a line a request at four requests a second."""

KEPT_BYTES = 2**20
"""Of a log that grew past its bound: the newest part, which is what tells why an engine died."""

KEPT_FILES = 40
"""Logs of replicas that are gone: two weeks of a model that changes daily, with its previous launches."""

READ_BYTES = 256 * 2**10
"""In one look: at most this much of a log is searched for loading stages, so that a look stays under 5 ms."""

LINE_BYTES = 8 * 2**10
"""Of a line that loading stages are looked for in, its start: an engine may write megabytes without a line end."""

_LINE_END = re.compile(rb"\r?\n|\r(?!\n|\Z)")
"""A progress bar ends each of its states with a carriage return only; one at the very end may be half of a line end."""


class EngineLogs:
    """The log directory of one agent."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, replica_id: str) -> Path:
        """Where this replica's engine writes."""
        return self.directory / f"{file_stem(replica_id)}.log"

    def rotate(self, replica_id: str) -> None:
        """Make an empty log for a launch, keeping the one of the launch before beside it; AgentError when it cannot."""
        path = self.path(replica_id)
        try:
            make_private_directory(self.directory)
            if path.exists():
                path.replace(_previous(path))
            path.touch(mode=PRIVATE)
        except OSError as error:
            raise AgentError(f"the engine's log cannot be made: {error.strerror} ({path})") from error

    def bound(self, replica_id: str) -> None:
        """Cut a log that grew past its bound down to its newest part, while its engine writes on (it appends)."""
        path = self.path(replica_id)
        if not path.exists() or path.stat().st_size <= MAX_BYTES:
            return
        with path.open("rb") as file, _previous(path).open("wb") as kept:
            file.seek(-KEPT_BYTES, os.SEEK_END)
            shutil.copyfileobj(file, kept)
        os.truncate(path, 0)

    def tail(self, replica_id: str, lines: int, *, this_launch: bool = False) -> str | None:
        """The last lines of a replica's log, of the launch before where this one wrote nothing; None without a log.

        `this_launch`: nothing of the one before, which ended for a reason of its own.
        """
        path = self.path(replica_id)
        if not path.exists():
            return None
        newest = _last_lines(path, lines)
        missing = lines - len(newest)
        earlier = _last_lines(_previous(path), missing) if missing and not this_launch and not newest else []
        return "".join(f"{line}\n" for line in (*earlier, *newest))

    def prune(self, held: Iterable[str]) -> None:
        """Remove the oldest logs of replicas that are gone, beyond the number that is kept."""
        stems = {file_stem(replica_id) for replica_id in held}
        gone = [path for path in self.directory.glob("*.log*") if log_stem(path) not in stems]
        for path in sorted(gone, key=lambda each: each.stat().st_mtime, reverse=True)[KEPT_FILES:]:
            path.unlink()


class LogReader:
    """Reads what was added to one log since the last look, by whole lines; a progress bar's every state is one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def new_lines(self) -> list[str]:
        """Lines completed since the last call; none when the file is not there."""
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._offset:  # it was cut
                    self._offset, self._rest = 0, b""
                file.seek(self._offset)
                chunk = file.read(READ_BYTES)
        except FileNotFoundError:
            return []
        self._offset += len(chunk)
        *lines, rest = _LINE_END.split(self._rest + chunk)
        half_end = b"\r" if rest.endswith(b"\r") else b""
        self._rest = rest if len(rest) <= LINE_BYTES else rest[:LINE_BYTES].removesuffix(b"\r") + half_end
        return [line[:LINE_BYTES].decode(errors="replace") for line in lines]


def log_stem(path: Path) -> str:
    """`llama-70b-0@1a2b3c4d.log.1` → `llama-70b-0@1a2b3c4d`: the stem of a log, rotated or not."""
    return path.name.removesuffix(".1").removesuffix(".log")


def _previous(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _last_lines(path: Path, count: int) -> list[str]:
    """Of the last KEPT_BYTES; a longer line is cut, and of one that began before them nothing is shown.

    What is left of such a line could begin with the end of a secret, which nobody would find there.
    """
    if count <= 0 or not path.exists():
        return []
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(-min(size, KEPT_BYTES), os.SEEK_END)
        newest = file.read().decode(errors="replace").splitlines()
        return (newest[1:] if size > KEPT_BYTES and len(newest) > 1 else newest)[-count:]
