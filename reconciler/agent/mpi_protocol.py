"""What `mpi_connect` on the first node and `mpi_node` on a further one say to each other: one JSON line each way.

The node begins with a number of its own, the first node offers a daemon's command line, the node says whether it takes
it. With a key in both environments (`engines/mpi_names.py`), a declared secret, the offer is signed; without one it is
enough to connect from the first node's address, as it is between the ranks of any engine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import shlex
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DAEMONS = ("orted", "prted")
"""Open MPI's daemon up to 4, and from 5 on: nothing else is ever started for an offer."""

LONGEST = 1 << 20
"""Bytes of a line: a daemon's command names every node, and a thousand are some ten kilobytes."""


_KEEPALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 6))
"""Seconds until the first question, between two, and how many without an answer."""


LONGEST_WORD = 1 << 17
HANDSHAKE_SECONDS = 5.0
"""For all that is said before the daemon begins: three lines that are ready when they are asked for."""


class Broken(Exception):
    """The other side said nothing, or nothing that is of this protocol."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What the first node wants started."""

    weights: str
    """Where its weights are: its command line is every rank's, so that they must be there on each node."""
    daemon: str
    arguments: tuple[str, ...]

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Offer:
        """From its line; Broken where it is none."""
        weights, daemon, arguments = (said.get(each) for each in ("weights", "daemon", "arguments"))
        if not isinstance(weights, str) or not isinstance(daemon, str) or not isinstance(arguments, list):
            raise Broken("it offers no daemon")
        if not all(isinstance(word, str) and _is_word(word) for word in (weights, daemon, *arguments)):
            raise Broken("its daemon's words are no words")
        return cls(weights, daemon, tuple(arguments))

    def line(self, nonce: str, key: str | None) -> Mapping[str, Any]:
        """With its signature, where there is a key."""
        signed = {} if key is None else {"signature": self.signature(nonce, key)}
        return {**asdict(self), **signed}

    def signature(self, nonce: str, key: str) -> str:
        """HMAC of the node's number and the offer."""
        content = json.dumps([nonce, self.weights, self.daemon, *self.arguments]).encode()
        return hmac.new(key.encode(), content, hashlib.sha256).hexdigest()


def _is_word(text: str) -> bool:
    """Whether it can be a word of a command line, and one line of a log; the kernel takes 128 KiB at most."""
    return text.isprintable() and len(text) < LONGEST_WORD


def offer(weights: str, words: Sequence[str]) -> Offer:
    """Out of what `mpirun` would have a remote shell run: variables first, then the daemon; Broken without a daemon.

    `mpirun` quotes for that shell. What stands before the daemon sets PATH as the first node has it: on its own node a
    daemon is found by its name.
    """
    try:
        split = shlex.split(" ".join(words))
    except ValueError as error:
        raise Broken(f"mpirun's command for another node cannot be read: {error}") from error
    for place, word in enumerate(split):
        # 5.0 writes no space between the last variable and the daemon
        name = PurePosixPath(word.rpartition(";")[2]).name
        if name in DAEMONS:
            return Offer(weights, name, tuple(split[place + 1 :]))
    raise Broken(f"mpirun's command for another node begins no {' or '.join(DAEMONS)}: is this Open MPI?")


def keep_alive(connection: socket.socket) -> None:
    """Let a node without power or network be noticed within 40 s, at both ends; Open MPI itself takes minutes."""
    for option, value in _KEEPALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.settimeout(None)


def send(connection: socket.socket, said: Mapping[str, Any]) -> None:
    """One line."""
    connection.sendall(json.dumps(said).encode() + b"\n")


def receive(connection: socket.socket, until: float) -> Mapping[str, Any]:
    """The next line; Broken when there is none by `until`, on the monotonic clock. Byte by byte, and nothing behind it.

    A time for the whole line: one that sends a byte now and then would else hold up everybody.
    """
    line = bytearray()
    try:
        while not line.endswith(b"\n"):
            connection.settimeout(max(until - time.monotonic(), 0.001))
            byte = connection.recv(1)
            if not byte or len(line) > LONGEST:
                raise Broken("it hung up" if not byte else "it does not stop talking")
            line += byte
        said = json.loads(line)
    except (OSError, ValueError, RecursionError) as error:
        raise Broken(str(error) or "no answer") from error
    if not isinstance(said, dict):
        raise Broken("it says no JSON object")
    return said
