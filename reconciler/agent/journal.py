"""The agent's memory on disk: `node.json`, and one file a replica in `replicas/`.

Every write is whole or did not happen. What cannot be read is set aside, never taken for empty: the entry of a replica
stands in its own file and in the node's assignment, and a running engine is found by its open log file, so losing
any one of the three makes no engine look gone (`recovery.py`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from reconciler.agent.records import NodeRecord, ReplicaRecord
from reconciler.domain.placement import parse_replica_id
from reconciler.durable import make_private_directory, write_atomically
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_log = logging.getLogger(__name__)

_Record = TypeVar("_Record", bound=BaseModel)


class JournalUnwritable(AgentError):
    """The journal could not be written (disk full, read-only); what it held before is untouched."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What the journal says; `node` None when it has no readable node record."""

    node: NodeRecord | None = None
    replicas: Mapping[str, ReplicaRecord] = field(default_factory=dict)
    """By replica id."""
    unreadable: tuple[Path, ...] = ()


def file_stem(replica_id: str) -> str:
    """`llama-70b/0@1a2b3c4d` → `llama-70b-0@1a2b3c4d`: a replica's name on disk."""
    model, ordinal = parse_replica_id(replica_id)
    return f"{model}-{ordinal}@{replica_id.rpartition('@')[2]}"


def read_journal(directory: Path) -> Contents:
    """Read everything, changing nothing; a missing directory is an empty journal."""
    unreadable: list[Path] = []
    node = _read(directory / "node.json", NodeRecord, unreadable)
    found = (_read(path, ReplicaRecord, unreadable) for path in sorted(directory.glob("replicas/*.json")))
    replicas = {record.id: record for record in found if record is not None}
    return Contents(node, replicas, tuple(unreadable))


def _read(path: Path, kind: type[_Record], unreadable: list[Path]) -> _Record | None:
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"{error.error_count()} errors in its content"
        _log.error("journal: %s cannot be read (%s)", path, reason)
        unreadable.append(path)
        return None


class Journal:
    """The journal of one agent, which is its only writer.

    `displaced` tells whether its directory was taken away: what stands there now belongs to another agent.
    """

    def __init__(self, directory: Path, displaced: Callable[[], bool] = lambda: False) -> None:
        self._displaced = displaced
        self._directory = directory
        self._replicas = directory / "replicas"

    def open(self) -> Contents:
        """Make the directories, read everything and set aside what cannot be read; AgentError when it may not."""
        try:
            for directory in (self._directory, self._replicas):
                make_private_directory(directory)
                directory.chmod(0o700)
                for torn in directory.glob(".*.json.*"):
                    torn.unlink()
            contents = read_journal(self._directory)
            for path in contents.unreadable:
                _set_aside(path)
        except OSError as error:
            raise AgentError(f"the agent's directory cannot be written: {error.strerror} ({error.filename})") from error
        return contents

    def save_node(self, record: NodeRecord) -> None:
        """Replace the node's record; JournalUnwritable leaves it as it was."""
        self._write(self._directory / "node.json", record)

    def save_replica(self, record: ReplicaRecord) -> None:
        """Replace one replica's record; JournalUnwritable leaves it as it was."""
        self._write(self._path(record.id), record)

    def remove_replica(self, replica_id: str) -> None:
        """Forget a replica that is gone; one that was forgotten already is fine."""
        path = self._path(replica_id)
        self._check_place(path)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(path, error) from error

    def holds_node(self) -> bool:
        """Whether the node's record is on disk; a person may have removed it."""
        return (self._directory / "node.json").exists()

    def holds_replica(self, replica_id: str) -> bool:
        """Whether this replica's record is on disk."""
        return self._path(replica_id).exists()

    def _check_place(self, path: Path) -> None:
        if self._displaced():
            raise JournalUnwritable(f"the agent's directory was deleted, moved or made anew ({path.parent})")

    def _path(self, replica_id: str) -> Path:
        return self._replicas / f"{file_stem(replica_id)}.json"

    def _write(self, path: Path, record: BaseModel) -> None:
        self._check_place(path)
        try:
            write_atomically(path, record.model_dump_json().encode())
        except OSError as error:
            raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> JournalUnwritable:
    return JournalUnwritable(
        f"the agent's journal cannot be written: {error.strerror} ({path})",
        hint=f"make room or make {path.parent} writable; engines that run are kept",
    )


def _set_aside(path: Path) -> None:
    """Keep what could not be read for a person, under a name that nothing reads."""
    number = 1
    while (aside := path.with_name(f"{path.name}.unreadable-{number}")).exists():
        number += 1
    path.rename(aside)
    _log.error("journal: kept %s as %s", path.name, aside)
