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
from reconciler.agent.halt import STOP_ENDS_WITHIN, end_agent, stop_agent
from reconciler.agent.lock import is_locked, is_stopping, lock_holder
from reconciler.agent.offline import offline_observation
from reconciler.agent.plain import plain
from reconciler.agent.processes import identify
from reconciler.agent.sockets import ask, socket_path
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from reconciler.agent.config import AgentConfig
    from reconciler.agent.drivers.base import ProcessIdentity

__all__ = ["agent_running", "ensure_agent", "offline_observation", "socket_path", "stop_agent"]

ANSWERS_WITHIN = 20.0
"""Seconds from start to first answer: half a second when idle, and much for a machine that is loading models."""

WITHOUT_SOCKET = 2.0
"""Seconds: an agent binds its socket within a millisecond of its lock, and ends within two seconds of removing it."""

ASK_EVERY = 0.05
ASK_TIMEOUT = 2.0

LOG_BYTES = 8 * 2**20
"""An agent's log that grew past this is put aside at the next start: two years of a quiet agent."""

TAIL_LINES = 6
LOOKED_AT_LINES = 30
"""Of the agent's log when it does not answer: those of its last start, some of the one before."""

STARTS = 3
"""An agent may be stopped by somebody else in the middle of its start; one that cannot start says so three times,
half a second each."""

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


def ensure_agent(state_dir: Path, config: AgentConfig, *, within: float = ANSWERS_WITHIN) -> None:
    """Have an agent with this configuration answer; AgentError says why none does.

    One with another configuration or of another version is replaced; engines survive that. Asking costs 2 ms while
    the right one runs. `within`: seconds that one which runs, or was just started, may take to answer.
    """
    config = config.model_copy(update={"state_dir": state_dir.absolute(), "listen": f"unix:{socket_path(state_dir)}"})
    if _is_right(config, _facts(config)):
        return
    started, starts, began = None, 0, time.monotonic()
    while True:
        facts = _facts(config)
        if _is_right(config, facts):
            return
        if facts is not None or _unreachable(config, time.monotonic() - began):
            end_agent(state_dir)
        if not is_locked(state_dir) and (started is None or not ProcessDriver().alive(started)):
            if starts == STARTS:
                raise AgentError(f"the agent ended while it started: {_tail(config)}", hint=_where(config))
            end_agent(state_dir, displaced=True)
            started, starts, began = _start(config), starts + 1, time.monotonic()
        allowed = STOP_ENDS_WITHIN if is_stopping(state_dir) else within
        if time.monotonic() - began >= allowed:
            raise AgentError(_silent(config, allowed), hint=_where(config))
        time.sleep(ASK_EVERY)


def _unreachable(config: AgentConfig, seconds: float) -> bool:
    """Whether an agent runs whose socket somebody removed; one that begins or ends has none for a moment."""
    gone = seconds >= WITHOUT_SOCKET and not Path(config.listen.removeprefix("unix:")).is_socket()
    return gone and is_locked(config.state_dir) and not is_stopping(config.state_dir)


def _silent(config: AgentConfig, seconds: float) -> str:
    holder = lock_holder(config.state_dir)
    if holder is None or not is_locked(config.state_dir):
        return f"no agent answers {seconds:.0f} s after its start: {_tail(config)}"
    return f"the agent (pid {holder.identity.pid}) runs and does not answer within {seconds:.0f} s: {_tail(config)}"


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
    """The last complaints of its log, or its last words when it has none."""
    try:
        lines = _log_path(config).read_text("utf-8", errors="replace").splitlines()[-LOOKED_AT_LINES:]
    except OSError:
        return "it wrote no log"
    complaints = [line for line in lines if " INFO " not in line]
    return " | ".join(map(plain, (complaints or lines)[-TAIL_LINES:])) or "its log is empty"
