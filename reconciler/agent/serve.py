"""Runs one agent until a signal: its lock, its socket, its HTTP server and its supervisor in one event loop."""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import uvicorn

from reconciler.agent.app import Desk, create_app
from reconciler.agent.clock import SystemClock
from reconciler.agent.drivers.process import ProcessDriver, machine_boot_id
from reconciler.agent.gpus import gpus_of, watch
from reconciler.agent.journal import Journal
from reconciler.agent.lock import holding_lock
from reconciler.agent.logs import EngineLogs
from reconciler.agent.probes import Prober
from reconciler.agent.processes import running_engines
from reconciler.agent.sockets import bind
from reconciler.agent.supervisor import Supervisor
from reconciler.agent.tools import Tools
from reconciler.durable import make_private_directory
from reconciler.engines.registry import support
from reconciler.weights.locate import locate

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from reconciler.agent.config import AgentConfig
    from reconciler.agent.gpus import Gpus
    from reconciler.agent.lock import Tenure

_log = logging.getLogger(__name__)

KEEP_ALIVE = 75
"""Seconds an idle connection stays open: longer than any client of ours keeps one, so that the client closes first and
no request meets a connection that is just being closed."""

LAST_ANSWERS = 2
"""Seconds for answers that are under way when the agent ends."""


TEND_EVERY = 2.0
"""Seconds between looks at the state directory: some file status calls. An agent whose directory was taken away starts
nothing any more (no launch without a record); this is how long it goes on watching beside the next agent."""


def run_agent(config: AgentConfig) -> None:
    """Run the agent until SIGTERM or SIGINT; the engines go on (promise 6). AgentError when it cannot start."""
    _log_to_stderr()
    with holding_lock(config.state_dir, config.listen) as tenure, closing(bind(config.listen)) as listener:
        try:
            anyio.run(_run, config, listener, tenure)
        finally:
            if config.listen.startswith("unix:") and not tenure.lost():  # else that path is another agent's
                Path(config.listen.removeprefix("unix:")).unlink(missing_ok=True)


async def _run(config: AgentConfig, listener: socket.socket, tenure: Tenure) -> None:
    logs = EngineLogs(config.directory / "logs")
    _make_secrets_directory(config)
    desk = Desk(config, logs)
    prober = Prober()
    tools = Tools(
        config=config,
        boot_id=machine_boot_id(),
        clock=SystemClock(),
        driver=ProcessDriver(),
        prober=prober,
        support=support,
        locate=locate,
        logs=logs,
        running=partial(running_engines, logs.directory),
        environment=os.environ,
        gpus=gpus_of(config, os.environ),
    )
    server = await _serving(desk, listener)
    try:
        await tools.gpus.look()
        running = await anyio.to_thread.run_sync(tools.running)
        supervisor = Supervisor(tools, Journal(config.directory, tenure.lost), running)
        await _until_its_end(desk, supervisor, tools.gpus, tenure)
    finally:
        with anyio.CancelScope(shield=True):
            await server.shutdown(sockets=[listener])
            await prober.aclose()


def _make_secrets_directory(config: AgentConfig) -> None:
    """Where a failure tells people to put a secret's value; one that `secrets_dir` names is its owner's to make."""
    if config.secrets_dir is None:
        try:
            make_private_directory(config.secrets)
        except OSError as error:  # engines without secrets run all the same
            _log.warning("%s cannot be made: %s", config.secrets, error.strerror)


async def _serving(desk: Desk, listener: socket.socket) -> uvicorn.Server:
    """Begin to serve: `Server.serve` without its signal handlers and without its tick, ten times a second."""
    config = uvicorn.Config(
        create_app(desk),
        interface="asgi3",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=LAST_ANSWERS,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    return server


async def _until_its_end(desk: Desk, supervisor: Supervisor, gpus: Gpus, tenure: Tenure) -> None:
    """Take commands until a signal comes or the state directory is taken away."""
    end = anyio.Event()

    async def signalled(signals: AsyncIterator[signal.Signals]) -> None:
        number = await anext(signals)
        _log.info("%s: the agent ends, its engines go on", signal.Signals(number).name)
        end.set()

    async def tended() -> None:
        while not tenure.lost():
            supervisor.tend()
            await anyio.sleep(TEND_EVERY)
        _log.error("%s was deleted, moved or made anew: the agent ends, its engines go on", tenure.path.parent)
        end.set()

    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        await supervisor.greet()
        desk.supervisor = supervisor
        _log.info("agent of %s (pid %d) listens on %s", desk.config.node, os.getpid(), desk.config.listen)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervisor.run, name="supervisor")
            tasks.start_soon(watch, gpus, name="GPUs")
            tasks.start_soon(signalled, signals, name="signals")
            tasks.start_soon(tended, name="state directory")
            await end.wait()
            supervisor.close()
            tasks.cancel_scope.cancel()


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name in ("uvicorn", "httpx", "httpcore", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
