"""Says when to look at the local repository again: soon after a commit, and at every poll interval whatever happened.

A hint carries nothing: whoever gets one reads HEAD. File events make it quick and the interval makes it sure, since
events can be lost: the kernel's queue overflows, network file systems send none, a watched directory is replaced.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from watchfiles._rust_notify import RustNotify  # documented; `awatch` opens its watch only when it begins to wait

from reconciler.errors import SourceError
from reconciler.sources.repository import common_dir, git_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import timedelta
    from pathlib import Path

log = logging.getLogger(__name__)

# A commit writes a handful of files within milliseconds; one hint for all of them, and at most 200 ms late.
_DEBOUNCE_MS = 200
_STEP_MS = 50
# Branches with a slash are directories under refs/; more than this many are watched by the interval alone.
_DIRECTORIES_LIMIT = 500

_FOLDERS = ("refs", "reftable")
_NAMES = frozenset({"HEAD", "packed-refs", *_FOLDERS})

Watched = tuple[tuple[str, int], ...]
"""Directories with their inodes: one that was removed and made again is another, and no longer watched."""


async def look_again(directory: Path, poll: timedelta) -> AsyncGenerator[None, None]:
    """Yield at once, then after each change of HEAD or a ref and at least every `poll`, for ever.

    The watch is open before each yield, so that a commit made while the caller works gives the next one.
    """
    watch = _Watch()
    try:
        while True:
            await anyio.to_thread.run_sync(watch.open, directory)
            yield
            await watch.wait(poll)
    finally:
        watch.close()


class _Watch:
    """File events of one repository, for as long as its directories stay the same."""

    def __init__(self) -> None:
        self._notify: RustNotify | None = None
        self._watched: Watched = ()
        self._roots: frozenset[str] = frozenset()
        self._told = False
        """The failure that lasts has been logged."""

    def open(self, directory: Path) -> None:
        """Watch what is to be watched now; where that fails, the interval alone counts until the next try."""
        try:
            roots = frozenset({str(git_dir(directory)), str(common_dir(directory))})
            watched = _directories(roots)
            if self._notify is not None and watched == self._watched:
                return
            paths = [path for path, _ in watched]
            # Neither debugging nor polling nor recursion: `objects/` alone can be 256 directories of no interest.
            self._notify = RustNotify(paths, False, False, 0, False, False)  # it takes no keywords
            self._watched, self._roots, self._told = watched, roots, False
        except (OSError, RuntimeError, SourceError) as error:
            self._give_up(error)

    async def wait(self, limit: timedelta) -> None:
        """Return after a change that matters, or after the limit."""
        deadline = anyio.current_time() + limit.total_seconds()
        while (remaining := deadline - anyio.current_time()) > 0:
            if self._notify is None:
                await anyio.sleep(remaining)
                return
            try:
                changed = await _changes(self._notify, remaining)
            except (OSError, RuntimeError) as error:
                self._give_up(error)
                continue
            if any(self._matters(path) for path in changed):
                return

    def close(self) -> None:
        """Stop watching: the watch ends with its last reference."""
        self._notify, self._watched = None, ()

    def _matters(self, path: str) -> bool:
        folder, name = os.path.split(path)
        return not name.endswith(".lock") and (folder not in self._roots or name in _NAMES)

    def _give_up(self, error: Exception) -> None:
        self.close()
        if not self._told:
            log.warning("file events of the repository are not to be had (%s): looking at every interval", error)
            self._told = True


async def _changes(notify: RustNotify, limit_seconds: float) -> set[str]:
    """Paths that changed; none when the limit is reached first."""
    stop = threading.Event()
    limit_ms = max(1, int(limit_seconds * 1000))  # 0 would be for ever
    try:
        answer = await anyio.to_thread.run_sync(
            notify.watch, _DEBOUNCE_MS, _STEP_MS, limit_ms, stop, abandon_on_cancel=True
        )
    finally:
        stop.set()  # when cancelled, the thread ends within a step
    return set() if isinstance(answer, str) else {path for _, path in answer}


def _directories(roots: frozenset[str]) -> Watched:
    """The repository's own directories and all that hold refs, with their inodes, sorted."""
    found = [root for root in roots if os.path.isdir(root)]  # noqa: PTH112  # plain strings: there may be hundreds
    for root in sorted(roots):
        for folder in _FOLDERS:
            for path, _, _ in os.walk(os.path.join(root, folder)):  # noqa: PTH118  # as above
                if len(found) >= _DIRECTORIES_LIMIT:
                    break
                found.append(path)
    return tuple(sorted((path, os.stat(path).st_ino) for path in found))  # noqa: PTH116  # as above
