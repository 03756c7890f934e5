"""A directory of its own for each replica: settings that an engine takes from a file only, and what it throws away."""

from __future__ import annotations

import contextlib
import json
import shutil
from types import MappingProxyType
from typing import TYPE_CHECKING

from reconciler.agent.journal import file_stem
from reconciler.durable import make_private_directory, write_atomically
from reconciler.engines.secret_settings import SecretSettings
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_LAUNCHES = "launches"
_PRIVATE = 0o700


def launch_directory(agent_directory: Path, replica_id: str) -> Path:
    """Where it is, or will be."""
    return agent_directory / _LAUNCHES / file_stem(replica_id)


def remove_launch_directory(agent_directory: Path, replica_id: str) -> None:
    """Take it away with all that is in it: the replica is gone. What cannot be removed is tried at the next start."""
    shutil.rmtree(launch_directory(agent_directory, replica_id), ignore_errors=True)


def sweep_launch_directories(agent_directory: Path, kept: Collection[str]) -> None:
    """Take away those of replicas that are gone; `kept` are the file stems of all others, and of engines that run."""
    with contextlib.suppress(OSError):
        launches = agent_directory / _LAUNCHES
        launches.chmod(_PRIVATE)
        for each in launches.iterdir():
            if each.name not in kept:
                shutil.rmtree(each, ignore_errors=True)


def write_launch_files(
    directory: Path, files: Mapping[str, str | SecretSettings], declared: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Make the directory with these files in it; AgentError if it fails.

    `declared` is the declared environment with its secrets: what files ask of it is put into them, and into nothing
    else. Only the agent's own user can read them.
    """
    contents = {name: content_of(name, wanted, declared) for name, wanted in files.items()}
    try:
        for each in (directory.parent, directory):
            make_private_directory(each)
            each.chmod(_PRIVATE)  # one that stood there already may be open to others
        for name, content in contents.items():
            write_atomically(directory / name, content.encode())
    except OSError as error:
        raise AgentError(f"{directory} cannot be written: {error.strerror}") from error


def content_of(name: str, wanted: str | SecretSettings, declared: Mapping[str, str]) -> str:
    """What stands in one file. AgentError names the variable whose value cannot stand there, and never the value."""
    if isinstance(wanted, str):
        return wanted
    return "".join(f"{setting}: {_quoted(name, each, declared)}\n" for setting, each in wanted.variables.items())


def in_files(files: Mapping[str, str | SecretSettings]) -> frozenset[str]:
    """The declared variables whose values stand in files."""
    return frozenset(
        variable
        for wanted in files.values()
        if isinstance(wanted, SecretSettings)
        for variable in wanted.variables.values()
    )


def _quoted(name: str, variable: str, declared: Mapping[str, str]) -> str:
    """As a quoted string, so that 0123 or `no` stays text.

    Engines turn these files into words of a command line: one that is empty or begins with a dash is none, and an empty
    key would be no key. What is not printable ASCII goes into no header either.
    """
    value = declared.get(variable, "")
    if not value:
        fault = "is empty"
    elif value.startswith("-"):
        fault = "begins with a dash"
    elif not (value.isascii() and value.isprintable()) or " " in value:
        fault = "has blanks, line ends or other than ASCII characters in it"
    else:
        return json.dumps(value)
    raise AgentError(f"the value of {variable} {fault}: it cannot go into {name}", hint="choose another, and retry")
