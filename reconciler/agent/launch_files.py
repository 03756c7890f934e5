"""A directory of its own for each replica: settings that an engine takes from a file only, and what it throws away."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from reconciler.agent.journal import file_stem
from reconciler.durable import make_private_directory, write_atomically
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def launch_directory(agent_directory: Path, replica_id: str) -> Path:
    """Where it is, or will be."""
    return agent_directory / "launches" / file_stem(replica_id)


def write_launch_files(directory: Path, files: Mapping[str, str]) -> None:
    """Make the directory with these files in it, and take away those of replicas that are gone; AgentError if it fails.

    A replica is gone when its record in the journal is.
    """
    records = directory.parent.parent / "replicas"
    try:
        make_private_directory(directory)
        for name, content in files.items():
            write_atomically(directory / name, content.encode())
    except OSError as error:
        raise AgentError(f"{directory} cannot be written: {error.strerror}") from error
    with contextlib.suppress(OSError):
        for each in directory.parent.iterdir():
            if each != directory and not (records / f"{each.name}.json").exists():
                shutil.rmtree(each, ignore_errors=True)
