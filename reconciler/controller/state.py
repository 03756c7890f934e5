"""What a reconciler keeps on disk: where its state is, and which commit it was last told to make real.

Nothing here is needed to decide: git and the agents hold the truth. It only tells people and `run` where they were.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from reconciler.controller.holder import has_ended
from reconciler.domain.assignment import Holder
from reconciler.domain.base import Frozen, Text
from reconciler.durable import make_private_directory, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_VARIABLE = "RECONCILER_STATE_DIR"
_AIM_FILE = "aim.json"


class AimRecord(Frozen):
    """The commit that `apply` or `run` last set out to make real."""

    commit: Text
    set_at: datetime
    settled_at: datetime | None = None
    """When the fleet had become as that commit says; None when it has not yet."""
    by: Holder | None = None
    """The process that set out to; None in records of a version that did not tell."""

    @property
    def is_abandoned(self) -> bool:
        """Whether it is not settled and the process that set out to is gone; False where that cannot be seen."""
        return self.settled_at is None and self.by is not None and has_ended(self.by)


def state_dir(fleet: str, environ: Mapping[str, str] = os.environ) -> Path:
    """`$RECONCILER_STATE_DIR`, else the XDG state directory by fleet name."""
    chosen = environ.get(STATE_VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    import platformdirs  # noqa: PLC0415  # only where the variable is unset

    return Path(platformdirs.user_state_dir("reconciler", appauthor=False)) / fleet


def read_aim(directory: Path) -> AimRecord | None:
    """The last aim; None when there is none or it cannot be read, since nothing depends on it."""
    try:
        return AimRecord.model_validate_json((directory / _AIM_FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def put_back(directory: Path, record: AimRecord | None) -> None:
    """Forget an aim that came to nothing for the one before it, where the disk lets us: it only tells people."""
    with suppress(OSError):
        if record is None:
            (directory / _AIM_FILE).unlink(missing_ok=True)
        else:
            write_atomically(directory / _AIM_FILE, record.model_dump_json().encode())


def record_aim(
    directory: Path, commit: str, *, settled: bool, by: Holder | None = None, now: datetime | None = None
) -> str | None:
    """Remember the aim, and `by` whom it is followed.

    One sentence where the disk does not take it: worth saying, and no reason to stop work.
    """
    at = now or datetime.now(UTC)  # noqa: TID251  # the shell reads the clock
    before = read_aim(directory)
    set_at = before.set_at if before is not None and before.commit == commit else at
    record = AimRecord(commit=commit, set_at=set_at, settled_at=at if settled else None, by=by)
    try:
        make_private_directory(directory)
        write_atomically(directory / _AIM_FILE, record.model_dump_json().encode())
    except OSError as error:
        return (
            f"the state directory {directory} cannot be written ({error.strerror}), so `status` will not know this "
            f"commit; free space, or set {STATE_VARIABLE} to a directory that can be written"
        )
    return None
