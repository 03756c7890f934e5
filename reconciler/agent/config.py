"""What one agent is told about itself: its node, where it listens, what the node has, which engines it may start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError

from reconciler.agent.engine_commands import default_command
from reconciler.domain.base import Frozen, Name, Positive, PositiveNumber, Text, digest
from reconciler.domain.loopback import is_loopback
from reconciler.domain.model_spec import Engine
from reconciler.domain.port_blocks import PortRange
from reconciler.durable import make_private_directory, write_atomically
from reconciler.errors import AgentError, UsageError

_FIRST_LINES = 3
"""Of a config's errors are shown: the first is nearly always the cause."""


def _listen(address: str) -> str:
    """Plain HTTP is for loopback and Unix sockets only (design section 8)."""
    if address.startswith("unix:/"):
        return address
    url = urlsplit(address)
    if url.scheme == "http" and is_loopback(url.hostname) and url.port is not None and url.path in {"", "/"}:
        return address
    raise ValueError("expected unix:/PATH or http://127.0.0.1:PORT (plain HTTP is for loopback and Unix sockets only)")


def _default_engines() -> dict[Engine, tuple[str, ...]]:
    """Every engine this machine has a usual command for."""
    found = {kind: default_command(kind) for kind in Engine}
    return {kind: command for kind, command in found.items() if command}


Command = Annotated[tuple[Text, ...], Field(min_length=1)]


class AgentConfig(Frozen):
    """One agent's configuration, `agent.json`."""

    node: Name
    """The node's name in `cluster/nodes/`."""
    listen: Annotated[str, AfterValidator(_listen)]
    """unix:/PATH, or http://127.0.0.1:PORT."""
    state_dir: Annotated[Path, AfterValidator(Path.absolute)]
    """State directory; the agent keeps its own files in `agent/` below it."""
    gpus: tuple[Text, ...] = ()
    """Declared GPU classes, by index."""
    memory_gib: PositiveNumber | None = None
    """Declared host RAM that models may reserve, GiB."""
    cpu_cores: Positive | None = None
    """Declared CPU cores that models may reserve."""
    engines: dict[Engine, Command] = Field(default_factory=_default_engines)
    """Engine → the command that starts it, as words. An engine that is not here is never started."""
    engine_host: Text = "127.0.0.1"
    """Address the engines listen on."""
    block_ports: PortRange = PortRange()
    """Ports for replicas over several nodes; free on every node that such a replica may use."""
    secrets_dir: Path | None = None
    """Directory with one file per secret; `agent/secrets` in the state directory when not given."""

    @property
    def directory(self) -> Path:
        """The agent's own directory."""
        return agent_directory(self.state_dir)

    @property
    def secrets(self) -> Path:
        """Where `{secret: name}` is looked up."""
        return self.secrets_dir or self.directory / "secrets"

    def digest(self) -> str:
        """64 hex digits; two agents with one digest were told the same."""
        return digest(self.model_dump(mode="json"))


def agent_directory(state_dir: Path) -> Path:
    """Where the agent of this state directory keeps its files."""
    return state_dir.absolute() / "agent"


def load_config(path: Path) -> AgentConfig:
    """Read `agent.json`; UsageError says what is wrong with it."""
    try:
        return AgentConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        shown = error.errors(include_input=False, include_url=False)[:_FIRST_LINES]
        reasons = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'file'}: {each['msg']}" for each in shown)
        raise UsageError(f"{path} is not an agent's configuration: {reasons}") from error


def save_config(config: AgentConfig) -> Path:
    """Write `agent.json` into the agent's directory, whole or not at all; its path. AgentError when it cannot be."""
    path = config.directory / "agent.json"
    try:
        make_private_directory(config.directory)
        write_atomically(path, config.model_dump_json(indent=2).encode() + b"\n")
    except OSError as error:
        raise AgentError(f"{path} cannot be written: {error.strerror}") from error
    return path
