"""Every way in which a node cannot be reached, by real sockets: each is told as what it is."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from reconciler.errors import NodeUnreachable
from reconciler.fleet.http import Endpoint, HttpFleet
from reconciler.fleet.observer import observing
from reconciler.fleet.trouble import cannot_connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.anyio

PEM = Path(__file__).parent.parent / "weights" / "loopback.pem"
NODE = "gpu-01"
SOON = timedelta(seconds=0.2)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def port(of: socket.socket) -> int:
    found: int = of.getsockname()[1]
    return found


async def told(endpoint: Endpoint, **timeouts: timedelta) -> NodeUnreachable:
    fleet = HttpFleet({NODE: endpoint}, **timeouts)
    with pytest.raises(NodeUnreachable) as caught:
        await fleet.observe(NODE, since=None, wait=timedelta())
    await fleet.close()
    return caught.value


def answering(listener: socket.socket, act: Callable[[socket.socket], None]) -> Thread:
    """One connection is taken and `act` has it; then it is closed."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            act(connection)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    return thread


async def test_a_name_that_nobody_knows() -> None:
    error = await told(Endpoint(url="https://gpu-01.invalid:7443"))
    assert error.message == "gpu-01: https://gpu-01.invalid:7443 is a name that this machine cannot look up"
    assert error.refused, "one failed look-up may be a blip: it takes two to call a node unreachable"


async def test_a_port_where_nothing_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = await told(Endpoint(url=f"http://127.0.0.1:{port(taken)}"))
        where = f"http://127.0.0.1:{port(taken)}"
    assert error.message == f"gpu-01: {where} refused the connection: nothing listens there"


async def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    error = await told(Endpoint(socket=str(tmp_path / "agent.sock")))
    assert error.message == f"gpu-01: unix:{tmp_path}/agent.sock is no socket: no agent listens there"


async def test_a_socket_that_its_agent_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    error = await told(Endpoint(socket=str(path)))
    assert error.message == f"gpu-01: unix:{path} refused the connection: nothing listens there"


async def test_a_connection_without_an_answer(listener: socket.socket) -> None:
    error = await told(Endpoint(url=f"http://127.0.0.1:{port(listener)}"), answer_margin=SOON)
    assert error.message.endswith("took the connection and did not answer within 0.2 s")
    assert not error.refused


async def test_a_port_that_takes_nobody() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]  # fill the backlog: further connections are left unanswered
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port(full)))
        error = await told(Endpoint(url=f"http://127.0.0.1:{port(full)}"), connect_timeout=SOON)
        for each in waiting:
            each.close()
    assert error.message.endswith("took no connection within 0.2 s")


async def test_a_certificate_that_nobody_vouches_for(listener: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)

    def greet(connection: socket.socket) -> None:
        with suppress(OSError):  # the other side breaks it off
            context.wrap_socket(connection, server_side=True).recv(1)

    thread = answering(listener, greet)
    error = await told(Endpoint(url=f"https://127.0.0.1:{port(listener)}"))
    thread.join(5)
    assert "shows a certificate that is not trusted here (self" in error.message


async def test_a_server_without_tls(listener: socket.socket) -> None:
    def refuse(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(65_536)

    thread = answering(listener, refuse)
    error = await told(Endpoint(url=f"https://127.0.0.1:{port(listener)}"))
    thread.join(5)
    assert error.message.endswith("does not speak TLS as it should")


async def test_a_server_that_speaks_something_else(listener: socket.socket) -> None:
    def greet(connection: socket.socket) -> None:
        connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")
        connection.recv(65_536)  # closed with something unread, it would be reset

    thread = answering(listener, greet)
    error = await told(Endpoint(url=f"http://127.0.0.1:{port(listener)}"))
    thread.join(5)
    assert error.message.endswith("gives no answer in HTTP")


async def test_a_user_in_the_address_is_not_repeated() -> None:
    error = await told(Endpoint(url="https://ada:pa55word@gpu-01.invalid:7443"))
    assert "pa55word" not in error.message
    assert "https://gpu-01.invalid:7443" in error.message


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (101, "cannot be reached from here (Network is unreachable)"),
        (113, "cannot be reached from here (No route to host)"),
    ],
)
def test_a_network_that_leads_nowhere(number: int, said: str) -> None:
    """The errors that the kernel gives; no machine of ours has an address that surely does."""
    several = ExceptionGroup("all addresses", [OSError(number, "")])
    error = OSError("All connection attempts failed")
    error.__cause__ = several
    assert cannot_connect(error) == said


async def test_a_node_is_silent_since_it_was_last_heard_and_not_since_it_was_asked() -> None:
    at = datetime(2026, 11, 30, 14, 2, tzinfo=UTC)
    endpoints = {name: Endpoint(socket="/nowhere/agent.sock") for name in ("gpu-01", "gpu-02")}
    fleet = HttpFleet(endpoints)
    async with observing(fleet, endpoints, timedelta(), heard_at={"gpu-01": at}) as observer:
        observed = await observer.hear_all(timedelta(seconds=20))
    await fleet.close()
    assert [(node.name, node.since) for node in observed.unreachable] == [("gpu-01", at), ("gpu-02", None)]
    assert observed.unreachable[0].reason == "unix:/nowhere/agent.sock is no socket: no agent listens there"
