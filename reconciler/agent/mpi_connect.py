"""`python -m reconciler.agent.mpi_connect PART COMMAND…`: what `mpirun` calls in the place of ssh.

It brings Open MPI's daemon to the process that the other node's agent has started to wait for it (`mpi_node`), and
stays until that daemon ends: `mpirun` takes its failure for the loss of the node. What is wrong stands on stderr, which
is the log of the first node's replica, in sentences that `engines/trtllm_log.py` reads.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
from typing import TYPE_CHECKING

from reconciler.agent.mpi_node import say
from reconciler.agent.mpi_protocol import HANDSHAKE_SECONDS, Broken, keep_alive, offer, receive, send
from reconciler.engines.mpi_names import KEY_VARIABLE, PARTS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.agent.mpi_protocol import Offer

PATIENCE = 600.0
"""Seconds until a part that does not wait is given up: its agent launches it again after five minutes at most."""

AGAIN = 1.0
SAY_EVERY = 30.0
CONNECT_SECONDS = 5.0

_NOT_FROM_THERE = frozenset({errno.EADDRNOTAVAIL, errno.EINVAL})
"""The leader's address is not this node's own, or of a kind from which the other cannot be reached."""


def main(words: Sequence[str]) -> int:
    """0 once the daemon on the other node has ended, 1 where it never began or the node is lost."""
    name, *command = words
    told = json.loads(os.environ[PARTS_VARIABLE])
    host, port = told["parts"][name]
    where = f"the part on {host} port {port}"
    try:
        with _joined((host, port), told["leader"], where, offer(told["weights"], command)) as connection:
            return _stay(connection, where)
    except Broken as error:
        say(f"{where} cannot join: {error}")
        return 1


def _stay(connection: socket.socket, where: str) -> int:
    """Until the daemon ends, and with it the connection, on which nothing more is said."""
    keep_alive(connection)
    try:
        while connection.recv(1):
            pass
    except OSError as error:
        say(f"{where} is lost: {error.strerror or error}")
        return 1
    return 0


def _joined(address: tuple[str, int], leader: str, where: str, asked: Offer) -> socket.socket:
    """A connection to it on which it took the offer; Broken with its refusal, or when it has not waited for too long.

    One that hangs up or says nothing is asked again: it may just have ended, or be busy with somebody else.
    """
    begun = said = time.monotonic()
    while True:
        try:
            connection = _connect(*address, leader)
            refused = _offered(connection, asked)
        except (Broken, OSError) as error:
            now, why = time.monotonic(), getattr(error, "strerror", None) or str(error)
        else:
            if refused is None:
                return connection
            connection.close()
            raise Broken(refused)
        if now - begun > PATIENCE:
            raise Broken(f"it has not waited for {PATIENCE:.0f} s ({why}): see the log of its own node")
        if now - said >= SAY_EVERY:
            said = now
            say(f"{where} does not wait yet ({why})")
        time.sleep(AGAIN)


def _offered(connection: socket.socket, asked: Offer) -> str | None:
    """Hand the daemon over; why it was refused, None where it begins. The connection is closed where it breaks."""
    until = time.monotonic() + HANDSHAKE_SECONDS
    try:
        nonce = str(receive(connection, until).get("nonce"))
        send(connection, asked.line(nonce, os.environ.get(KEY_VARIABLE)))
        refused = receive(connection, until).get("refused")
    except (Broken, OSError):
        connection.close()
        raise
    return None if refused is None else str(refused)


def _connect(host: str, port: int, leader: str) -> socket.socket:
    """From the address by which the other side knows this node, where that is one of its own."""
    try:
        return socket.create_connection((host, port), CONNECT_SECONDS, source_address=(leader, 0))
    except OSError as error:
        if not isinstance(error, socket.gaierror) and error.errno not in _NOT_FROM_THERE:
            raise
    return socket.create_connection((host, port), CONNECT_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
