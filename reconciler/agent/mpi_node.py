"""`python -m reconciler.agent.mpi_node`: a further node's part of a replica under MPI; it waits for the first node.

Its agent started it like an engine, on its GPUs and in its environment. Once the first node's `mpirun` has connected
(`mpi_connect`), Open MPI's daemon runs here as its child, and below that the ranks: one session, which the agent
signals and ends. When the daemon or the connection ends it ends too, and its agent launches it again for the next.

Nothing here may import pydantic: it stays as long as the replica runs.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import ipaddress
import os
import queue
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from reconciler.agent.mpi_protocol import DAEMONS, HANDSHAKE_SECONDS, Broken, Offer, keep_alive, receive, send
from reconciler.engines.mpi_names import KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

ENDING_SECONDS = 10.0
"""In which a daemon ends after the connection, or a signal: it kills its ranks first. Then it is killed itself."""


def main(words: Sequence[str]) -> int:
    """Wait, run the daemon, and end with its exit status; 2 where it cannot wait at all."""
    asked = _options(words)
    if not any(shutil.which(name) for name in DAEMONS):
        return _fail(f"Open MPI is not on this node: no {' or '.join(DAEMONS)} on PATH; install it (openmpi-bin)")
    try:
        listener = _listener(asked.listen, asked.door)
    except OSError as error:
        return _fail(f"it cannot wait on {asked.listen} port {asked.door}: {error.strerror or error}")
    say(f"waiting for {asked.leader} on {asked.listen} port {asked.door}")
    with listener:
        connection, offer = _first_offer(listener, asked)
    with connection:
        return _run(offer, connection)


def _listener(host: str, port: int) -> socket.socket:
    """On every address for `::`, IPv4 among them, as for other engines; on that of the host otherwise."""
    if host == "::" and socket.has_dualstack_ipv6():
        return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address, family=family)


def _first_offer(listener: socket.socket, asked: argparse.Namespace) -> tuple[socket.socket, Offer]:
    """The first that is taken. Each connection has a thread: one that says nothing holds up no other."""
    taken: queue.Queue[tuple[socket.socket, Offer]] = queue.Queue()
    one = threading.Lock()

    def serve(connection: socket.socket, peer: str) -> None:
        offer = _accepted(connection, peer, asked, one)
        if offer is None:
            connection.close()
        else:
            taken.put((connection, offer))
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the wait for another connection

    while taken.empty():
        try:
            connection, peer = listener.accept()
        except OSError:
            if taken.empty():
                raise
            break
        if _same_host(str(peer[0]), asked.leader):
            threading.Thread(target=serve, args=(connection, str(peer[0])), daemon=True).start()
        else:
            connection.close()
            say(f"refused a connection from {peer[0]}: only {asked.leader} leads this replica")
    return taken.get()


def say(text: str) -> None:
    """One line in the replica's log, whatever the other side made of it."""
    sys.stderr.write(f"reconciler: {''.join(each if each.isprintable() else '?' for each in text)}\n")
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


def _accepted(connection: socket.socket, peer: str, asked: argparse.Namespace, one: threading.Lock) -> Offer | None:
    """What is to be run; None, with a line in the log and one for the other side, where it is not.

    `one` is taken by whoever is accepted: there is one daemon.
    """
    nonce, until = secrets.token_hex(16), time.monotonic() + HANDSHAKE_SECONDS
    mine = False
    try:
        send(connection, {"nonce": nonce})
        said = receive(connection, until)
        offer = Offer.read(said)
        why = _refusal(offer, nonce, said.get("signature"), asked)
        mine = why is None and one.acquire(blocking=False)
        if why is None and not mine:
            why = "another offer was taken meanwhile"
        send(connection, {"refused": why})
    except (Broken, OSError) as error:
        if mine:
            one.release()
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
        if not isinstance(signature, str) or not hmac.compare_digest(
            right.encode(), signature.encode(errors="replace")
        ):
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
    try:
        daemon = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL)
    except (OSError, ValueError) as error:
        return _fail(f"{program} cannot be started: {error}")

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
