"""When each node was last heard, kept for the next command: one that just began has heard nobody.

For people only: nothing that is decided depends on it, so a disk that does not take it is no reason to stop.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import AwareDatetime, Field, ValidationError

from reconciler.domain.base import FORMAT_VERSION, Frozen, Name, Text
from reconciler.domain.observed import EARLIEST, LATEST
from reconciler.durable import make_private_directory, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.observed import Observation

_FILE = "heard.json"

EVERY = timedelta(seconds=60)
"""How old what is kept may be of nodes that go on answering: people are told minutes."""


class _Record(Frozen):
    format_version: Text = Field(default=FORMAT_VERSION, pattern=r"^1\.[0-9]+$")
    heard_at: dict[Name, Annotated[AwareDatetime, Field(ge=EARLIEST, le=LATEST)]]
    """By node."""


def read_heard(state: Path) -> dict[str, datetime]:
    """By node, when it was last heard; nothing of nodes of which nothing is kept."""
    try:
        return dict(_Record.model_validate_json((state / _FILE).read_bytes()).heard_at)
    except (OSError, ValidationError):
        return {}


@dataclass(slots=True)
class Heard:
    """Keeps what passes saw, as seldom as people need it."""

    state: Path
    _silent: frozenset[str] | None = None
    _kept_at: datetime | None = None

    def note(self, observed: Observation, now: datetime | None = None) -> None:
        """Take one observation in; written when other nodes are silent than before, or after EVERY."""
        at = now or datetime.now(UTC)  # noqa: TID251  # the shell reads the clock
        silent = frozenset(node.name for node in observed.unreachable)
        if silent == self._silent and self._kept_at is not None and at - self._kept_at < EVERY:
            return
        self._silent, self._kept_at = silent, at
        heard = {node.name: at for node in observed.reachable if node.agent}
        heard |= {node.name: node.since for node in observed.unreachable if node.since is not None}
        if heard:
            with suppress(OSError):
                make_private_directory(self.state)
                write_atomically(self.state / _FILE, _Record(heard_at=heard).model_dump_json().encode())
