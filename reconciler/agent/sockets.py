"""Where the local agent listens, and a small client to ask it."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.agent.config import agent_directory
from reconciler.agent.lock import lock_holder
from reconciler.durable import PRIVATE, make_private_directory
from reconciler.errors import AgentError

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_PATH_BYTES = 100
"""The kernel takes 107; some tools write a suffix while they bind."""


def socket_path(state_dir: Path) -> Path:
    """The Unix socket of the local agent: `agent/agent.sock`, or a short private path where that is too long.

    The short path depends on the environment, so the one an agent wrote down when it bound it comes first.
    """
    usual = agent_directory(state_dir) / "agent.sock"
    if len(os.fsencode(usual)) <= LONGEST_PATH_BYTES:
        return usual
    holder = lock_holder(state_dir)
    if holder is not None and holder.listen.startswith("unix:") and Path(holder.listen[5:]).exists():
        return Path(holder.listen[5:])
    name = hashlib.sha256(os.fsencode(usual)).hexdigest()[:16]
    return _runtime_directory() / f"{name}.sock"


def bind(listen: str) -> socket.socket:
    """A bound socket for `unix:/PATH` (only its owner may connect) or `http://127.0.0.1:PORT`; AgentError."""
    try:
        return _bind_unix(Path(listen[5:])) if listen.startswith("unix:") else _bind_loopback(listen)
    except OSError as error:
        raise AgentError(f"cannot listen on {listen}: {error.strerror or error}") from error


def ask(path: Path, request: str, timeout: float) -> tuple[int, Mapping[str, Any]] | None:
    """GET from an agent on a Unix socket: status and JSON object; None when it does not answer in `timeout` seconds."""
    connection = http.client.HTTPConnection("agent")
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.settimeout(timeout)
    try:
        connection.sock.connect(str(path))
        connection.request("GET", request)
        answer = connection.getresponse()
        body = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return (answer.status, body) if isinstance(body, dict) else None


def _runtime_directory() -> Path:
    """A short directory that only we can enter: XDG_RUNTIME_DIR has that by contract, one in /tmp is checked."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "reconciler"
    return Path(tempfile.gettempdir()) / f"reconciler-{os.getuid()}"


def _bind_unix(path: Path) -> socket.socket:
    make_private_directory(path.parent)
    if path.parent.stat().st_uid != os.getuid():
        raise AgentError(f"{path.parent} belongs to another user", hint="set XDG_RUNTIME_DIR to a directory of yours")
    path.unlink(missing_ok=True)  # of an agent that is gone: we hold its lock
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(PRIVATE)
    return listener


def _bind_loopback(listen: str) -> socket.socket:
    url = urlsplit(listen)
    family = socket.AF_INET6 if url.hostname == "::1" else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1" if url.hostname == "localhost" else url.hostname, url.port))
    return listener
