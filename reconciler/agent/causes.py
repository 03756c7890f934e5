"""Why a launch ended, in one sentence: from the engine's log where it tells, else from how the process ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.agent.engine_keys import given_secrets
from reconciler.agent.plain import plain, printable
from reconciler.agent.secret_files import redact
from reconciler.engines.card_names import name_cards
from reconciler.engines.signals import STANDS_FOR, ended_itself, how

if TYPE_CHECKING:
    from collections.abc import Callable

    from reconciler.agent.config import AgentConfig
    from reconciler.agent.drivers.base import Exit
    from reconciler.agent.logs import EngineLogs
    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.model_spec import Engine
    from reconciler.engines.base import EngineSupport

TAIL_LINES = 2_000
"""vLLM prints one cause as the traceback of every worker, of the engine and of the server, 30 to 60 lines each: on
eight GPUs the innermost stands a thousand lines before the end."""

LINE_CHARACTERS = 2_000
"""Of one line, from both its ends: the cause stands at the start of most, and behind a tensor or a command in some."""

TAIL_CHARACTERS = 400_000
"""Of the whole, its newest part: 2,000 lines as long as a terminal is wide twice. What an engine writes may be made by
whoever sends it requests, and every pattern of its table is searched for in this much."""

_SIGNALLED = 128
"""Shells, `mpirun` and `mpi_node` end with this and the number of the signal that ended their child."""


def why_ended(
    entry: RunEntry,
    ending: Exit,
    *,
    config: AgentConfig,
    logs: EngineLogs,
    support: Callable[[Engine], EngineSupport | None],
) -> str:
    """One plain sentence, without secret values, on an end that the agent of this node did not bring about."""
    engine = support(entry.declaration.engine)
    secrets = given_secrets(entry, config)
    tail = readable(redact(logs.tail(entry.id, TAIL_LINES, this_launch=True) or "", secrets))
    told = engine.read_failure(tail) if engine is not None and tail else None
    nodes = entry.placement.nodes
    here = nodes.index(config.node) if config.node in nodes else 0
    if told is not None:
        told = name_cards(told, entry.declaration, entry.placement.shards, here, entry.addresses)
    else:
        told = say_exit(ending) if here == 0 else f"{say_exit(ending)}; its leader on {nodes[0]} may say more"
    return plain(redact(told, secrets))


def readable(tail: str) -> str:
    """The newest lines of a log as engines read them: plain, each cut in its middle, and no more than is searched.

    Secrets are to be out of it before: once a line is cut or its blanks are changed, nobody finds half of one.
    """
    kept: list[str] = []
    left = TAIL_CHARACTERS
    for line in reversed(tail.splitlines()):
        short = printable(_ends(line))
        left -= len(short) + 1
        if left < 0:
            break
        kept.append(short)
    return "\n".join(reversed(kept))


def _ends(line: str) -> str:
    half = LINE_CHARACTERS // 2
    return line if len(line) <= LINE_CHARACTERS else f"{line[:half]} … {line[-half:]}"


def say_exit(ending: Exit) -> str:
    """How a process ended, in words; an exit code of 0 is no more welcome than another.

    A signal is known of the agent's own child only, and what the agent itself signals never gets here.
    """
    if ending.signal is not None:
        return ended_itself(ending.signal)
    if ending.code is None:
        return "ended while no agent was watching"
    signal = ending.code - _SIGNALLED
    if signal in STANDS_FOR:
        return f"exited with code {ending.code}, as programs do of which a process {how(signal)}"
    return f"exited with code {ending.code}"
