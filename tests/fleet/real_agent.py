"""A real agent process on a Unix socket below a temporary directory, for tests of whoever talks to it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from reconciler.agent.config import AgentConfig
from reconciler.agent.local import ensure_agent, socket_path, stop_agent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


NODE = "this-machine"


@dataclass(frozen=True, slots=True)
class RealAgent:
    """One running agent."""

    state: Path
    socket: str

    def kill(self) -> None:
        """kill -9."""
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            if "agent" in words and any(str(self.state) in word for word in words):
                process.kill()


@contextmanager
def running_agent(state: Path) -> Iterator[RealAgent]:
    """Start an agent for a small CPU node; it and its engines are gone afterwards."""
    socket = str(socket_path(state))
    config = AgentConfig(node=NODE, listen=f"unix:{socket}", state_dir=state, gpus=(), memory_gib=4, cpu_cores=4)
    ensure_agent(state, config)
    try:
        yield RealAgent(state, socket)
    finally:
        stop_agent(state, engines=True)
