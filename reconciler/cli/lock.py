"""`lock`: resolve the sources of models and write what they were found to be."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.console import Context, leave, note, out

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.lock import Lock
    from reconciler.domain.model_spec import ModelSpec
    from reconciler.errors import WeightsError
    from reconciler.weights.lock_source import Access
    from reconciler.weights.meter import Meter

BETWEEN_LINES_SECONDS = 1.0
"""A line of progress at most this often: 160 shards are some lines, and a slow hub is no silence."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(lock)


def lock(
    context: typer.Context,
    models: Annotated[list[str] | None, typer.Argument(metavar="MODEL", help="All models without it.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Look at every source again and tell what differs; write nothing.")
    ] = False,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Look at every source again and lock what it is now.")
    ] = False,
) -> None:
    """Write what the sources of models are into cluster/locks, to be committed.

    Sources that are locked already stay as they are; only new ones are looked at. With --upgrade all are: a branch
    is locked to the commit it points to now. The YAML is never changed. Of weights only the headers are read.
    Models that say unverified: true and have no lock are left alone unless named.
    Exit 1 when a model could not be locked, or with --check when something differs.
    """
    from reconciler.errors import UsageError, WeightsError  # noqa: PLC0415  # keeps --help lean
    from reconciler.sources.loader import load  # noqa: PLC0415
    from reconciler.sources.worktree import read_worktree  # noqa: PLC0415
    from reconciler.weights.lock_source import Access  # noqa: PLC0415
    from reconciler.weights.meter import Meter  # noqa: PLC0415
    from reconciler.weights.web import Web  # noqa: PLC0415

    if check and upgrade:
        raise UsageError("--check and --upgrade exclude each other", hint="--check tells what --upgrade would change")
    options: Context = context.obj
    directory = options.directory
    loaded = load(read_worktree(directory))
    known = loaded.partial.model_by_name
    names = list(dict.fromkeys(models or sorted({*known, *loaded.broken})))
    unknown = [name for name in names if name not in known and name not in loaded.broken]
    if unknown:
        raise UsageError(f"no such model: {', '.join(unknown)}", hint=f"models: {', '.join(known) or 'none'}")
    progress = _Progress()
    with Web(Meter(progress.read)) as web:
        command = _Command(directory, Access(web), progress, check=check, upgrade=upgrade)
        for name in names:
            try:
                if name not in known:
                    raise WeightsError("its file is not valid", hint="reconciler validate says why")  # noqa: TRY301  # told as the others
                command.one(known[name], loaded.partial.locks.get(name), named=bool(models))
            except WeightsError as error:
                command.failed(name, error)
    leave(command.close(len(names)))


@dataclass(slots=True)
class _Progress:
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
class _Command:
    """One run over several models: each is done by itself, and one that fails keeps no other from its lock."""

    directory: Path
    access: Access
    progress: _Progress
    check: bool
    upgrade: bool
    failures: int = 0
    differing: int = 0

    def one(self, model: ModelSpec, before: Lock | None, *, named: bool) -> None:
        """Lock one model, or hold its lock against what its sources are.

        One that is to be served without a lock is left alone until somebody names it: often it cannot have one.
        """
        from reconciler.sources.tree import printable  # noqa: PLC0415  # keeps --help lean
        from reconciler.weights.https_files import shown_source  # noqa: PLC0415
        from reconciler.weights.lock_changes import lock_changes  # noqa: PLC0415
        from reconciler.weights.lock_writer import kept_entry, make_lock, sources_of, write_lock  # noqa: PLC0415

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
        from reconciler.sources.tree import printable  # noqa: PLC0415  # keeps --help lean

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
    from reconciler.weights.lock_writer import pinned  # noqa: PLC0415  # keeps --help lean

    for each in found.sources:
        better = pinned(each.source, each)
        if better is not None:
            note(f"{model}: {each.source} is not pinned; write {better}")
