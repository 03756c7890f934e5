"""The API key of an engine, so that the agent's own requests are answered too.

An engine keeps the key it was started with, whatever the file of its secret says later. So the agent keeps it as well,
in the replica's launch directory, for the agent that takes the engine over. It goes with that directory.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from reconciler.agent.launch_files import launch_directory
from reconciler.agent.secret_files import read_secret, secret_values
from reconciler.domain.model_spec import SecretRef
from reconciler.durable import write_atomically
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reconciler.agent.config import AgentConfig
    from reconciler.domain.assignment import RunEntry
    from reconciler.engines.base import EngineSupport

KEPT_KEYS = "engine-keys.json"
"""In a launch directory: the different keys that launches of this replica were given, oldest first, each with the name
of its secret; a JSON list of pairs."""

_PAIRS = TypeAdapter(list[tuple[str, str]])

_MOST_KEPT = 20
"""Of them are kept, the newest: its log holds this launch and the one before."""


def engine_key(entry: RunEntry, engine: EngineSupport | None, secrets: Path, launches_of: Path) -> str | None:
    """The key its declared environment gives the engine; None without one, or when the secret cannot be read.

    The one that its newest launch was given, where that is known: `launches_of` is the agent's directory. Else what the
    file in `secrets` says now.
    """
    value = _declared(entry, engine)
    if not isinstance(value, SecretRef):
        return value
    kept = _kept(launch_directory(launches_of, entry.id))
    if kept:
        return kept[-1][1]
    try:
        return read_secret(value.secret, secrets) or None
    except AgentError:
        return None  # the launch says so, and starts nothing


def keep_key(entry: RunEntry, engine: EngineSupport, resolved: Mapping[str, str], directory: Path) -> None:
    """Keep the key that this launch is given, in its launch directory, for the agent's user only.

    `resolved` is the declared environment with its secrets. AgentError when it cannot be written. A key that stands in
    the declaration itself is not kept: it stands in the record.
    """
    name, value = _key_name(entry, engine), _declared(entry, engine)
    if name is None or not isinstance(value, SecretRef) or not resolved.get(name):
        return
    before, given = _kept(directory), (value.secret, resolved[name])
    keys = [*(each for each in before if each != given), given]
    if keys == before:
        return
    try:
        write_atomically(directory / KEPT_KEYS, json.dumps(keys[-_MOST_KEPT:]).encode())
    except OSError as error:
        raise AgentError(f"{directory / KEPT_KEYS} cannot be written: {error.strerror}") from error


def given_secrets(entry: RunEntry, config: AgentConfig) -> tuple[tuple[str, str], ...]:
    """(name, value) of the secrets that a replica was given, to hide them: what their files say now, and older keys."""
    now = secret_values(entry.declaration.env, config.secrets).items()
    return (*now, *(each for each in _kept(launch_directory(config.directory, entry.id)) if each not in now))


def _key_name(entry: RunEntry, engine: EngineSupport | None) -> str | None:
    """The declared variable that holds it."""
    env = entry.declaration.env or {}
    return next((name for name in (() if engine is None else engine.key_env) if name in env), None)


def _declared(entry: RunEntry, engine: EngineSupport | None) -> str | SecretRef | None:
    name = _key_name(entry, engine)
    return None if name is None else (entry.declaration.env or {})[name]


def _kept(directory: Path) -> list[tuple[str, str]]:
    """Nothing where there is no such file, or not as it was written."""
    with contextlib.suppress(OSError, ValidationError):
        return _PAIRS.validate_json((directory / KEPT_KEYS).read_bytes())
    return []
