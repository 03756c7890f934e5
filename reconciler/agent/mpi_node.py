"""`python -m reconciler.agent.mpi_node`: a further node's part of a replica under MPI; it waits for the first node.

Its agent started it like an engine, on its GPUs and in its environment. Once the first node's `mpirun` has connected
(`mpi_connect`), Open MPI's daemon runs here as its child, and below that the ranks: one session, which the agent
signals and ends. When the daemon or the connection ends it ends too, and its agent launches it again for the next.

Nothing here may import pydantic: it stays as long as the replica runs.
"""

from __future__ import annotations

import argparse
import hmac
import ipaddress
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from reconciler.agent.mpi_protocol import DAEMONS, Broken, Offer, keep_alive, receive, send
from reconciler.engines.mpi_names import KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

ANSWER_SECONDS = 10.0
"""For the first node's line, once it has connected: it is sent at once."""

ENDING_SECONDS = 10.0
"""In which a daemon ends after the connection, or a signal: it kills its ranks first. Then it is killed itself."""


def main(words: Sequence[str]) -> int:
    """Wait, run the daemon, and end with its exit status; 2 where it cannot wait at all."""
    asked = _options(words)
    if not any(shutil.which(name) for name in DAEMONS):
        return _fail(f"Open MPI is not on this node: no {' or '.join(DAEMONS)} on PATH; install it (openmpi-bin)")
    try:
        listener = socket.create_server(
            (asked.listen, asked.door), family=socket.AF_INET6 if ":" in asked.listen else socket.AF_INET
        )
    except OSError as error:
        return _fail(f"it cannot wait on {asked.listen} port {asked.door}: {error.strerror or error}")
    say(f"waiting for {asked.leader} on {asked.listen} port {asked.door}")
    with listener:
        while True:
            connection, peer = listener.accept()
            with connection:
                offer = _accepted(connection, str(peer[0]), asked)
                if offer is None:
                    continue
                listener.close()
                return _run(offer, connection)


def say(text: str) -> None:
    """One line in the replica's log."""
    sys.stderr.write(f"reconciler: {text}\n")
    sys.stderr.flush()


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mpi_node", allow_abbrev=False)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--door", type=int, required=True)
    parser.add_argument("--leader", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("engine", nargs="*", help="what the ranks will run, for whoever reads `ps`")
    return parser.parse_args(words)


def _fail(why: str) -> int:
    say(f"error: {why}")
    return 2


def _accepted(connection: socket.socket, peer: str, asked: argparse.Namespace) -> Offer | None:
    """What is to be run; None, with a line in the log and one for the other side, where it is not."""
    connection.settimeout(ANSWER_SECONDS)
    if not _same_host(peer, asked.leader):
        say(f"refused a connection from {peer}: only {asked.leader} leads this replica")
        return None
    nonce = secrets.token_hex(16)
    try:
        send(connection, {"nonce": nonce})
        said = receive(connection)
        offer = Offer.read(said)
        why = _refusal(offer, nonce, said.get("signature"), asked)
        send(connection, {"refused": why})
    except (Broken, OSError) as error:
        say(f"{peer} connected and offered nothing: {error}")
        return None
    if why is not None:
        say(f"refused what {peer} offered: {why}")
        return None
    return offer


def _refusal(offer: Offer, nonce: str, signature: object, asked: argparse.Namespace) -> str | None:
    key = os.environ.get(KEY_VARIABLE)
    if key is not None:
        right = offer.signature(nonce, key)
        if not isinstance(signature, str) or not hmac.compare_digest(right.encode(), signature.encode()):
            return f"it is not signed with this node's {KEY_VARIABLE}: the secret behind it differs between the nodes"
    elif signature is not None:
        return f"it is signed, and this node has no {KEY_VARIABLE}"
    if offer.daemon not in DAEMONS:
        return f"it offers {offer.daemon!r}, and only {' or '.join(DAEMONS)} is started here"
    if shutil.which(offer.daemon) is None:
        return f"no {offer.daemon} on PATH here: the nodes have different versions of Open MPI"
    if offer.weights != asked.weights:
        return f"the weights are in {asked.weights} here and in {offer.weights} there: one path on all nodes is needed"
    return None


def _same_host(peer: str, leader: str) -> bool:
    """Whether a connection comes from the address of the leader, or from one that its name stands for."""
    try:
        known = {info[4][0] for info in socket.getaddrinfo(leader, None)}
    except OSError:
        known = {leader}
    return _plain(peer) in {_plain(str(each)) for each in known}


def _plain(address: str) -> str:
    """Without a zone, and an IPv4 address as one also where it came over IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def _run(offer: Offer, connection: socket.socket) -> int:
    """The daemon, until it or the connection ends; signals are passed on."""
    program = shutil.which(offer.daemon)
    assert program is not None, "looked for before it was accepted"  # noqa: S101
    # Over the port of a daemon that leaves its session its agent would have no hold on it.
    words = [word for word in offer.arguments if word != "--daemonize"]
    say(f"runs {offer.daemon} for the first node")
    keep_alive(connection)
    daemon = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL)

    def pass_on(number: int, _: FrameType | None) -> None:
        daemon.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    if _hung_up(daemon, connection):
        say("the first node has hung up")
    code = _ended(daemon)
    say(f"{offer.daemon} ended with {code}")
    return code


def _ended(daemon: subprocess.Popen[bytes]) -> int:
    """Its exit status; it is helped where it does not end by itself."""
    for help_it in (daemon.terminate, daemon.kill):
        try:
            return _status(daemon.wait(ENDING_SECONDS))
        except subprocess.TimeoutExpired:
            help_it()
    return _status(daemon.wait())


def _hung_up(daemon: subprocess.Popen[bytes], connection: socket.socket) -> bool:
    """Whether the connection ended, and the daemon did not; returns when either has."""
    handle = os.pidfd_open(daemon.pid)
    try:
        ended, _, _ = select.select([handle, connection.fileno()], [], [])
    finally:
        os.close(handle)
    return handle not in ended


def _status(code: int) -> int:
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
