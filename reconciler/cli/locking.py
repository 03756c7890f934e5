"""What `lock` does with each model, and the lines it says meanwhile; apart from the command, to keep --help lean."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.cli.console import note, out
from reconciler.sources.tree import printable
from reconciler.weights.https_files import shown_source
from reconciler.weights.lock_changes import lock_changes
from reconciler.weights.lock_writer import kept_entry, make_lock, pinned, sources_of, write_lock

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.lock import Lock
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.errors import WeightsError
    from reconciler.weights.lock_source import Access
    from reconciler.weights.meter import Meter

BETWEEN_LINES_SECONDS = 1.0
"""A line of progress at most this often: 160 shards are some lines, and a slow hub is no silence."""


@dataclass(slots=True)
class LockProgress:
    """One line now and then on stderr: which model, which file, how much has been read."""

    model: str = ""
    meter: Meter | None = None
    _spoke: float = field(default_factory=time.monotonic)

    def begin(self, model: str, meter: Meter) -> None:
        """The lines that follow are about this model."""
        self.model, self.meter = model, meter
        meter.requests = meter.bytes = 0

    def read(self, file: str) -> None:
        """Some more of a file was read."""
        if self.meter is not None and time.monotonic() - self._spoke > BETWEEN_LINES_SECONDS:
            self._spoke = time.monotonic()
            note(f"{self.model}: {ascii(file)[1:-1]}   {self.total()}")

    def total(self) -> str:
        """What was read for this model so far."""
        assert self.meter is not None  # noqa: S101  # begin came first
        count = self.meter.bytes
        size = f"{count / 2**20:,.1f} MiB" if count >= 2**20 else f"{count / 2**10:,.1f} KiB"
        requests = self.meter.requests
        return f"{size} read" + (f" in {requests} request{'s' if requests != 1 else ''}" if requests else "")


@dataclass(slots=True)
class LockCommand:
    """One run over several models: each is done by itself, and one that fails keeps no other from its lock."""

    directory: Path
    access: Access
    progress: LockProgress
    check: bool
    upgrade: bool
    failures: int = 0
    differing: int = 0

    def one(self, model: ModelSpec, before: Lock | None, *, named: bool) -> None:
        """Lock one model, or hold its lock against what its sources are.

        One that is to be served without a lock is left alone until somebody names it: often it cannot have one.
        """
        if model.external is not None:
            note(f"{model.name}: external, nothing to lock")
            return
        if model.unverified and before is None and not named:
            note(f"{model.name}: unverified, left alone; reconciler lock {model.name} tries")
            return
        path = self.directory / "locks" / f"{model.name}.json"
        if before is None and path.exists():
            note(f"{model.name}: {path} is not a valid lock and counts as none")
        meter = self.access.web.meter
        self.progress.begin(model.name, meter)
        afresh = self.check or self.upgrade
        looked_at = [source for source, _ in sources_of(model) if afresh or kept_entry(source, before) is None]
        if looked_at:
            note(f"{model.name}: {', '.join(map(shown_source, looked_at))}")
        found = make_lock(model, self.access, before, afresh=afresh)
        if meter.bytes:
            note(f"{model.name}: {self.progress.total()}")
        changes = lock_changes(before, found)
        if self.check:
            self.differing += bool(changes)
            out("\n".join(f"{model.name}: {printable(change)}" for change in changes) or f"{model.name}: as locked")
            return
        if found == before:
            out(f"{model.name}: unchanged {path}")
        else:
            write_lock(path, found)
            out("\n".join([f"{model.name}: wrote {path}", *(f"  {printable(change)}" for change in changes if before)]))
        _note_unpinned(model.name, found)

    def failed(self, name: str, error: WeightsError) -> None:
        """Tell why one model has no new lock."""
        self.failures += 1
        note(f"error: {printable(name)}: {printable(error.message)}")
        if error.hint:
            note(f"  fix: {printable(error.hint)}")

    def close(self, count: int) -> int:
        """The closing words, and the exit code."""
        if self.failures:
            done = "looked at" if self.check else "locked; nothing was written for them"
            note(f"{self.failures} of {count} models could not be {done}")
        if self.differing:
            note("reconciler lock --upgrade takes what was found")
        return 1 if self.failures or self.differing else 0


def _note_unpinned(model: str, found: Lock) -> None:
    """A branch moves under everybody who starts a replica; the lock alone does not hold it."""
    for each in found.sources:
        better = pinned(each.source, each)
        if better is not None:
            note(f"{model}: {each.source} is not pinned; write {better}")
