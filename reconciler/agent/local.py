"""`address: local`: the ordinary agent on this machine, started detached when it is needed and none answers."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING

import reconciler
from reconciler import __version__
from reconciler.agent.config import save_config
from reconciler.agent.drivers.process import ProcessDriver
from reconciler.agent.halt import end_agent, stop_agent
from reconciler.agent.lock import is_locked
from reconciler.agent.offline import offline_observation
from reconciler.agent.processes import identify
from reconciler.agent.sockets import ask, socket_path
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from reconciler.agent.config import AgentConfig
    from reconciler.agent.drivers.base import ProcessIdentity

__all__ = ["agent_running", "ensure_agent", "offline_observation", "socket_path", "stop_agent"]

ANSWERS_WITHIN = 20.0
"""Seconds from start to first answer: half a second when idle, and much for a machine that is loading models."""

ASK_EVERY = 0.05
ASK_TIMEOUT = 2.0

LOG_BYTES = 8 * 2**20
"""An agent's log that grew past this is put aside at the next start: two years of a quiet agent."""

TAIL_LINES = 6

_DETACH = """
import os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
child = os.fork()
if child:
    print(child)
    sys.stdout.flush()
    os._exit(0)
os.dup2(log, 1)
os.dup2(log, 2)
os.chdir("/")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Run by a bare interpreter in a new session: its child leads nothing, belongs to no terminal, and is init's."""


def agent_running(state_dir: Path) -> bool:
    """Whether an agent of this state directory lives, answering or not."""
    return is_locked(state_dir)


def ensure_agent(state_dir: Path, config: AgentConfig) -> None:
    """Have an agent with this configuration answer; AgentError says why none does.

    One with another configuration or of another version is replaced; engines survive that. Asking costs 2 ms while
    the right one runs.
    """
    config = config.model_copy(update={"state_dir": state_dir.absolute(), "listen": f"unix:{socket_path(state_dir)}"})
    if _is_right(config, _facts(config)):
        return
    started = _start(config) if not is_locked(state_dir) else None
    deadline = time.monotonic() + ANSWERS_WITHIN
    while True:
        facts = _facts(config)
        if _is_right(config, facts):
            return
        if facts is not None:
            end_agent(state_dir)
        if not is_locked(state_dir) and (started is None or not ProcessDriver().alive(started)):
            if started is not None and facts is None:
                raise AgentError(f"the agent ended while it started: {_tail(config)}", hint=_where(config))
            started = _start(config)
        if time.monotonic() >= deadline:
            raise AgentError(f"no agent answers after {ANSWERS_WITHIN:.0f} s: {_tail(config)}", hint=_where(config))
        time.sleep(ASK_EVERY)


def _facts(config: AgentConfig) -> dict[str, object] | None:
    """What the agent says of itself; None while none answers or it is taking over its engines."""
    answer = ask(Path(config.listen.removeprefix("unix:")), "/v1/health", ASK_TIMEOUT)
    return dict(answer[1]) if answer is not None and answer[0] == 200 else None  # noqa: PLR2004  # HTTP's OK


def _is_right(config: AgentConfig, facts: dict[str, object] | None) -> bool:
    return facts is not None and facts.get("config") == config.digest() and facts.get("version") == __version__


def _start(config: AgentConfig) -> ProcessIdentity | None:
    """Start an agent that outlives us: own session, no terminal, output to `agent.log`. None when it ended already."""
    path, log = save_config(config), _log_path(config)
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_name("agent.log.1"))
    agent = [sys.executable, "-m", "reconciler", "agent", "--config", str(path)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _DETACH, str(log), *agent],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_environment(),
        check=False,
    )
    if done.returncode != 0:
        raise AgentError(f"the agent cannot be started: {done.stderr.decode(errors='replace').strip()}")
    return identify(int(done.stdout))


def _environment() -> dict[str, str]:
    """Ours, and where this package lies if it is not installed: the agent's working directory is /."""
    root = str(Path(reconciler.__file__).resolve().parent.parent)
    if root in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        return dict(os.environ)
    others = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": root if not others else f"{root}{os.pathsep}{others}"}


def _log_path(config: AgentConfig) -> Path:
    return config.directory / "agent.log"


def _where(config: AgentConfig) -> str:
    return f"its log is {_log_path(config)}"


def _tail(config: AgentConfig) -> str:
    try:
        lines = _log_path(config).read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return "it wrote no log"
    return " | ".join(lines[-TAIL_LINES:]) or "its log is empty"
