"""Why a launch ended, in one sentence: from the engine's log where it tells, else from how the process ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.agent.plain import plain
from reconciler.agent.secret_files import redact, secret_values

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reconciler.agent.drivers.base import Exit
    from reconciler.agent.logs import EngineLogs
    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.model_spec import Engine
    from reconciler.engines.base import EngineSupport

TAIL_LINES = 2_000
"""vLLM prints one cause as the traceback of every worker, of the engine and of the server, 30 to 60 lines each: on
eight GPUs the innermost stands a thousand lines before the end."""


def why_ended(
    entry: RunEntry,
    ending: Exit,
    *,
    logs: EngineLogs,
    secrets: Path,
    support: Callable[[Engine], EngineSupport | None],
) -> str:
    """One plain sentence, without secret values."""
    engine = support(entry.declaration.engine)
    tail = "\n".join(map(plain, (logs.tail(entry.id, TAIL_LINES) or "").splitlines()))
    said = engine.read_failure(tail) if engine is not None and tail else None
    return plain(redact(said or say_exit(ending), secret_values(entry.declaration.env, secrets).items()))


def say_exit(ending: Exit) -> str:
    """How a process ended, in words; an exit code of 0 is no more welcome than another."""
    if ending.signal is not None:
        return f"killed by signal {ending.signal}"
    if ending.code is not None:
        return f"exited with code {ending.code}"
    return "ended while no agent was watching"
