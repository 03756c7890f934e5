"""Secrets by name: files in the agent's secrets directory, read at launch, and kept out of everything that is shown."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from reconciler.agent.plain import printable
from reconciler.domain.model_spec import SecretRef
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_SHORTEST = 4
"""A shorter value is left in texts: hiding every `1` would hide the text and guard nothing."""


def resolve_env(env: Mapping[str, str | SecretRef] | None, directory: Path) -> dict[str, str]:
    """The declared environment with its secrets filled in; AgentError names a missing one, and never a value."""
    return {
        name: read_secret(value.secret, directory) if isinstance(value, SecretRef) else value
        for name, value in (env or {}).items()
    }


def read_secret(name: str, directory: Path) -> str:
    """One secret, without the newline an editor leaves at its end."""
    path = directory / name
    try:
        return path.read_text("utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise AgentError(
            f"secret {name} cannot be read: {reason} ({path})", hint=f"put its value into {path} and retry"
        ) from error


def secret_values(env: Mapping[str, str | SecretRef] | None, directory: Path) -> dict[str, str]:
    """Name → value of the secrets an environment refers to, as far as they can be read."""
    names = [value.secret for value in (env or {}).values() if isinstance(value, SecretRef)]
    return {name: read_secret(name, directory) for name in names if (directory / name).is_file()}


def every_secret(directory: Path) -> dict[str, str]:
    """Name → value of all secrets of this node, as far as they can be read."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir()):
            with contextlib.suppress(AgentError):
                found[path.name] = read_secret(path.name, directory)
    return found


def redact(text: str, secrets: Iterable[tuple[str, str]]) -> str:
    """The text with each secret's value replaced by its name: an engine may print what it was given.

    Also as Python, JSON and addresses write it (SGLang's first line shows all its settings, its key among them), as
    `plain` shows it, and each line of it by itself. For texts as they were written: in one that was cut already, half
    of a secret is not found.
    """
    written = {form: name for name, value in secrets if len(value) >= _SHORTEST for form in _forms(value)}
    for form in sorted(written, key=len, reverse=True):  # the whole before its lines, the longer before its beginning
        text = text.replace(form, f"[secret {written[form]}]")
    return text


def _forms(value: str) -> set[str]:
    lines = (value, *(line.strip() for line in value.splitlines()))
    forms = {
        form
        for line in lines
        for form in (
            line,
            printable(line),
            repr(line)[1:-1],
            json.dumps(line)[1:-1],
            json.dumps(line, ensure_ascii=False)[1:-1],
            quote(line, safe=""),
            quote_plus(line),
        )
    }
    return {form for form in forms if len(form) >= _SHORTEST}
