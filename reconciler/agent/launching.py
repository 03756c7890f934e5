"""From an accepted entry to a process specification: engine command, weights, secrets, port, environment."""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconciler.agent.drivers.base import ProcessSpec
from reconciler.agent.secret_files import resolve_env
from reconciler.engines.base import Site
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from reconciler.agent.config import AgentConfig
    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.model_spec import Engine
    from reconciler.domain.placement import Shard
    from reconciler.engines.base import EngineSupport

PORTS = range(20_000, 32_000)
"""Engines listen here: below Linux's range for outgoing connections (32768 and up), so that none takes one first."""

INHERITED = (
    "PATH",  # the engine's own programs: compilers, ldconfig, nvidia-smi
    "HOME",  # caches of compiled kernels
    "USER",  # asked for by Python's getpass where the uid has no account (containers)
    "LANG",
    "LC_ALL",
    "TZ",  # timestamps in logs as on the rest of the machine
    "TMPDIR",
    "LD_LIBRARY_PATH",  # CUDA and ROCm libraries outside the default places
    "VIRTUAL_ENV",
    "PYTHONPATH",  # set by whoever starts us from a checkout, where our own llama.cpp server is not installed
)
"""Of the agent's environment this much reaches an engine. Everything else, credentials above all, stays here."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Where the files of a declaration are on this node."""

    model: Path
    mmproj: Path | None
    adapters: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a driver needs, and where the engine will answer."""

    spec: ProcessSpec
    port: int
    url: str


def own_shard(entry: RunEntry, node: str) -> Shard:
    """The part of a replica that runs here; AgentError when this agent cannot run it."""
    shards = entry.placement.shards
    if len(shards) != 1 or shards[0].node != node:
        where = ", ".join(shard.node for shard in shards) or "no node"
        raise AgentError(f"{entry.id} is placed on {where}; the agent of {node} runs replicas of this one node only")
    return shards[0]


def engine_command(
    kind: Engine, config: AgentConfig, support: Callable[[Engine], EngineSupport | None]
) -> tuple[EngineSupport, tuple[str, ...]]:
    """The engine and the command that starts it; AgentError says how to install it."""
    engine = support(kind)
    if engine is None:
        raise AgentError(f"this version of the agent cannot run {kind}")
    command = config.engines.get(kind)
    if command is None:
        raise AgentError(
            f"{config.node} has no {kind}; install it with: {engine.install_hint}",
            hint=f"then list {kind} in agent.json",
        )
    return engine, command


def locate_weights(entry: RunEntry, locate: Callable[[str], Path]) -> Weights:
    """Find every file the declaration names; WeightsError says which is missing. May read disks: not for the loop."""
    declaration = entry.declaration
    return Weights(
        model=locate(declaration.source),
        mmproj=locate(declaration.mmproj) if declaration.mmproj is not None else None,
        adapters={adapter.name: locate(adapter.source) for adapter in declaration.adapters},
    )


def free_port(host: str, replica_id: str, seed: str, taken: Collection[int], preferred: int | None) -> int:
    """A port that nothing listens on, the preferred one if it is free; AgentError when there is none.

    The search starts at a place that follows from agent and replica, so that two agents of one machine, which cannot
    see each other's choice before their engines listen, look in different places.
    """
    start = int(hashlib.sha256(f"{seed} {replica_id}".encode()).hexdigest(), 16) % len(PORTS)
    candidates: list[int] = [] if preferred is None else [preferred]
    candidates += [*PORTS[start:], *PORTS[:start]]
    for port in candidates:
        if port not in taken and _can_listen(host, port):
            return port
    raise AgentError(f"no free port between {PORTS.start} and {PORTS.stop - 1} on {host}")


def prepare(
    entry: RunEntry,
    config: AgentConfig,
    engine: EngineSupport,
    command: tuple[str, ...],
    weights: Weights,
    *,
    port: int,
    log: Path,
    environment: Mapping[str, str],
) -> Prepared:
    """The process specification. Declared environment comes after the inherited one, the engine module's last."""
    declaration = entry.declaration
    site = Site(
        host=config.engine_host,
        port=port,
        model_path=str(weights.model),
        mmproj_path=None if weights.mmproj is None else str(weights.mmproj),
        adapter_paths={name: str(path) for name, path in weights.adapters.items()},
        gpus=own_shard(entry, config.node).gpus,
    )
    launch = engine.launch(declaration, site)
    inherited = {name: environment[name] for name in INHERITED if name in environment}
    env = {**inherited, **resolve_env(declaration.env, config.secrets), **launch.env}
    spec = ProcessSpec(argv=(*command, *launch.arguments), env=env, log_path=log, cwd=config.directory)
    return Prepared(spec, port, launch.url)


def _can_listen(host: str, port: int) -> bool:
    """SO_REUSEADDR as engines set it: connections of the process before that still linger do not count."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
