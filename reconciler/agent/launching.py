"""From an accepted entry to a process specification: engine command, weights, secrets, port, environment."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import socket
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reconciler.agent.binding import can_bind
from reconciler.agent.drivers.base import ProcessSpec
from reconciler.agent.engine_keys import keep_key
from reconciler.agent.inventory import Inventory, numa_nodes
from reconciler.agent.launch_files import in_files, launch_directory, write_launch_files
from reconciler.agent.secret_files import resolve_env
from reconciler.agent.weight_files import adapter_rank, size_of, vocabulary_bytes
from reconciler.domain.loopback import is_loopback
from reconciler.domain.port_blocks import PORT_BLOCK
from reconciler.engines.base import Site
from reconciler.engines.devices import vendor_of
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from reconciler.agent.config import AgentConfig
    from reconciler.domain.assignment import RunEntry
    from reconciler.domain.declaration import Declaration
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


_NOTHING_MEASURED = Inventory()


@dataclass(frozen=True, slots=True)
class Weights:
    """Where the files of a declaration are on this node."""

    model: Path
    mmproj: Path | None
    adapters: Mapping[str, Path]
    model_bytes: int | None = None
    adapter_ranks: Mapping[str, int] = field(default_factory=dict)
    """By adapter name, as far as their files tell."""
    vocabulary_bytes: int | None = None
    """Of embedding and output head, for a replica on CPUs."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a driver needs, and where the engine will answer."""

    spec: ProcessSpec
    port: int
    url: str
    """The leader's, on the other nodes of a replica over several."""


def own_shard(entry: RunEntry, node: str) -> Shard:
    """The part of a replica that runs here; AgentError when this agent cannot run it."""
    return entry.placement.shards[own_rank(entry, node)]


def own_rank(entry: RunEntry, node: str) -> int:
    """Which of its nodes this one is, the leader being 0; AgentError when it is none of them."""
    nodes = entry.placement.nodes
    if node not in nodes:
        raise AgentError(f"{entry.id} is placed on {', '.join(nodes) or 'no node'}, and this is {node}")
    return nodes.index(node)


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
    model = locate(declaration.source)
    adapters = {adapter.name: locate(adapter.source) for adapter in declaration.adapters}
    return Weights(
        model=model,
        mmproj=locate(declaration.mmproj) if declaration.mmproj is not None else None,
        adapters=adapters,
        model_bytes=size_of(model),
        adapter_ranks={name: rank for name, path in adapters.items() if (rank := adapter_rank(path)) is not None},
        vocabulary_bytes=vocabulary_bytes(model) if declaration.gpu_class is None else None,
    )


def cache_directory(declaration: Declaration, config: AgentConfig) -> Path:
    """Where an engine keeps compiled kernels over restarts: they fit one engine version and one GPU class only."""
    words = (declaration.engine.value, declaration.version or "any", declaration.gpu_class or "cpu")
    return config.directory / "kernels" / "-".join(re.sub(r"[^A-Za-z0-9.+]", "_", word) for word in words)


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


def choose_port(entry: RunEntry, config: AgentConfig, taken: Collection[int], preferred: int | None) -> int:
    """Where the engine will listen; AgentError when it cannot.

    A replica over several nodes has its block from the planner, since all of them must name the same ports. Whether it
    is free is tested on the leader: the others listen nowhere that is known before.
    """
    if len(entry.placement.shards) == 1:
        return free_port(config.engine_host, entry.id, str(config.state_dir), taken, preferred)
    port, ports = entry.port, config.block_ports
    if port is None or len(entry.addresses) != len(entry.placement.shards):
        raise AgentError(f"{entry.id} runs on several nodes, and its entry names neither their addresses nor its ports")
    if not ports.holds(port):
        raise AgentError(
            f"its block of ports begins at {port}, and {config.node} gives blocks from {ports.first} to {ports.last}",
            hint="write the same block_ports in agent.json on every node of the pool",
        )
    if own_rank(entry, config.node) == 0:
        host = _host(entry, config)
        used = [each for each in range(port, port + PORT_BLOCK) if not _can_listen(host, each)]
        if used:
            block = f"{port} to {port + PORT_BLOCK - 1}"
            raise AgentError(f"port {used[0]} of its block {block} is in use, or {host} is no address of this node")
    return port


def deal_cores(
    asked: int | None, reserved: int | None, cores: Sequence[int], taken: Collection[int]
) -> tuple[int, ...]:
    """As many CPU cores as a replica asks for, its alone: the first of the agent's `cores` that are not `taken`.

    None where it asks for none, where too few are left, or where the node's `reserved` cores are not all there: then
    replicas share what there is.
    """
    free = [core for core in sorted(cores) if core not in taken]
    if asked is None or reserved is None or reserved > len(cores) or asked > len(free):
        return ()
    return tuple(free[:asked])


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
    cores: tuple[int, ...] = (),
    inventory: Inventory = _NOTHING_MEASURED,
) -> Prepared:
    """The process specification. Declared environment comes after the inherited one, the engine module's last.

    `cores` are CPU cores that are its alone; vendor and NUMA nodes of its GPUs come from the node's `inventory`. Writes
    the files that the launch wants in the replica's own directory.
    """
    declaration = entry.declaration
    directory = launch_directory(config.directory, entry.id)
    shard = own_shard(entry, config.node)
    numa = numa_nodes(inventory.gpus, shard.gpus, numactl=True)
    site = Site(
        host=_host(entry, config),
        port=port,
        model_path=str(weights.model),
        mmproj_path=None if weights.mmproj is None else str(weights.mmproj),
        adapter_paths={name: str(path) for name, path in weights.adapters.items()},
        gpus=shard.gpus,
        vendor=inventory.vendor_of(shard.gpus) or vendor_of(declaration.gpu_class),
        numa_nodes=numa if can_bind(numa, environment.get("PATH")) else (),
        addresses=entry.addresses,
        rank=own_rank(entry, config.node),
        cores=cores,
        weight_bytes=weights.model_bytes,
        vocabulary_bytes=weights.vocabulary_bytes,
        adapter_ranks=weights.adapter_ranks,
        cache_dir=str(cache_directory(declaration, config)),
        directory=str(directory),
        command=command,
        interpreter=sys.executable,
    )
    launch = engine.launch(declaration, site)
    _find_launcher(launch.launcher, config, environment)
    declared = resolve_env(declaration.env, config.secrets)
    write_launch_files(directory, launch.files, declared)
    keep_key(entry, engine, declared, directory)
    inherited = {**_home(), **{name: environment[name] for name in INHERITED if name in environment}}
    shown = {name: value for name, value in declared.items() if name not in in_files(launch.files)}
    env = {**inherited, **shown, **launch.env}
    spec = ProcessSpec(
        argv=(*launch.launcher, *command, *launch.arguments), env=env, log_path=log, cwd=config.directory
    )
    return Prepared(spec, port, launch.url)


def _home() -> Mapping[str, str]:
    """The user's own, for an agent that was started without one, as by systemd: Open MPI 5 ends where there is none."""
    try:
        return {"HOME": pwd.getpwuid(os.getuid()).pw_dir}
    except KeyError:  # a container's uid has no account
        return {}


def _find_launcher(words: tuple[str, ...], config: AgentConfig, environment: Mapping[str, str]) -> None:
    """AgentError where the program that starts the engine is not on this node."""
    if words and shutil.which(words[0], path=environment.get("PATH")) is None:
        raise AgentError(f"{config.node} has no {words[0]}", hint="install Open MPI (Debian: openmpi-bin)")


def _host(entry: RunEntry, config: AgentConfig) -> str:
    """What its engine listens on.

    Agents of its other nodes ask the leader whether it answers, and ranks meet there: where the agent's engines keep to
    this machine, one over several nodes listens under the address that the others know.
    """
    if len(entry.placement.shards) == 1 or not is_loopback(config.engine_host):
        return config.engine_host
    return entry.addresses[own_rank(entry, config.node)]


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
