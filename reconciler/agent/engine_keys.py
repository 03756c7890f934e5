"""The API key of an engine, so that the agent's own requests are answered too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.agent.secret_files import read_secret
from reconciler.domain.model_spec import SecretRef
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from pathlib import Path

    from reconciler.domain.assignment import RunEntry
    from reconciler.engines.base import EngineSupport


def engine_key(entry: RunEntry, engine: EngineSupport | None, secrets: Path) -> str | None:
    """The key its declared environment gives the engine; None without one, or when the secret cannot be read.

    Read once a launch: an engine keeps the key it was started with, whatever the file says later.
    """
    env = entry.declaration.env or {}
    names = () if engine is None else engine.key_env
    value = next((env[name] for name in names if name in env), None)
    if not isinstance(value, SecretRef):
        return value
    try:
        return read_secret(value.secret, secrets) or None
    except AgentError:
        return None  # the launch says so, and starts nothing
