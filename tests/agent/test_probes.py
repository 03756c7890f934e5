"""The prober against real servers on loopback: what an engine may answer, and all the ways of not answering."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import anyio
import pytest
from typing_extensions import override

from reconciler.agent.probes import MAX_BODY_BYTES, Prober
from reconciler.engines.base import Answer, Probe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio

LONG = timedelta(seconds=20)
SHORT = timedelta(seconds=0.3)
NOTHING = Answer(None)


class Engine(BaseHTTPRequestHandler):
    """Answers by path; `asked` of its server collects what it was asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes) -> None:
        assert isinstance(self.server, Server)
        self.server.asked.append((self.command, self.path, body, self.client_address[1]))
        match self.path:
            case "/loading":
                self.say(503, b"Loading model")
            case "/moved":
                self.say(302, b"elsewhere", location="/health")
            case "/endless":
                self.send_response(200)
                self.end_headers()
                while not self.server.closing.is_set():
                    self.wfile.write(b"x" * 65_536)
            case "/trickle":
                self.send_response(200)
                self.end_headers()
                while not self.server.closing.wait(0.05):
                    self.wfile.write(b"x")
            case "/hangs":
                self.server.closing.wait(30)
            case "/half":
                self.send_response(200)
                self.send_header("Content-Length", "100")
                self.end_headers()
                self.wfile.write(b"half of it")
                self.close_connection = True
            case _:
                self.say(200, body or b"ok")

    def say(self, status: int, body: bytes, location: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if location is not None:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:  # the name of its base
        """Nothing: a test's output is its result."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Engine)
        self.asked: list[tuple[str, str, bytes, int]] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @override
    def handle_error(self, *_: object) -> None:
        """Clients that hang up are the point here."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.closing.set()
        running.shutdown()
        thread.join()


@asynccontextmanager
async def prober() -> AsyncIterator[Prober]:
    sending = Prober()
    yield sending
    await sending.aclose()


async def ask(url: str, path: str, timeout: timedelta = LONG) -> Answer:  # noqa: ASYNC109  # as `send` has it
    async with prober() as sending:
        return await sending.send(url, Probe("GET", path), timeout)


async def test_status_and_body_are_told(server: Server) -> None:
    assert await ask(server.url, "/health") == Answer(200, b"ok")
    assert await ask(server.url, "/loading") == Answer(503, b"Loading model")


async def test_a_slash_after_the_base_url_is_no_matter(server: Server) -> None:
    await ask(server.url + "/", "/health")
    assert server.asked[0][1] == "/health"


async def test_a_body_is_sent_as_json(server: Server) -> None:
    async with prober() as sending:
        answer = await sending.send(server.url, Probe("POST", "/v1/completions", {"prompt": "ü"}), LONG)
    assert server.asked[0][:2] == ("POST", "/v1/completions")
    assert (answer.status, json.loads(answer.body)) == (200, {"prompt": "ü"})


async def test_a_form_with_a_file_is_sent_as_one(server: Server) -> None:
    probe = Probe("POST", "/v1/audio/transcriptions", form={"model": "tiny"}, upload=b"RIFF")
    async with prober() as sending:
        answer = await sending.send(server.url, probe, LONG)
    assert answer.status == 200
    assert b'name="model"\r\n\r\ntiny\r\n' in answer.body
    assert b'name="file"; filename="probe.wav"' in answer.body
    assert b"\r\n\r\nRIFF\r\n" in answer.body


async def test_a_redirect_is_an_answer_and_is_not_followed(server: Server) -> None:
    assert await ask(server.url, "/moved") == Answer(302, b"elsewhere")
    assert len(server.asked) == 1


async def test_an_endless_body_is_cut(server: Server) -> None:
    answer = await ask(server.url, "/endless")
    assert (answer.status, len(answer.body)) == (200, MAX_BODY_BYTES)


@pytest.mark.parametrize("path", ["/hangs", "/trickle"])
async def test_an_answer_that_is_not_through_in_time_is_none(server: Server, path: str) -> None:
    with anyio.fail_after(10):
        assert await ask(server.url, path, SHORT) == NOTHING


async def test_half_an_answer_is_none(server: Server) -> None:
    assert await ask(server.url, "/half") == NOTHING


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_a_port_on_which_nothing_listens_is_told_apart_from_silence(name: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert await ask(f"http://{name}:{unused.getsockname()[1]}", "/health") == Answer(None, refused=True)


@pytest.mark.parametrize("url", ["http://no-such-host.invalid:1", "ftp://127.0.0.1:1", "x"])
async def test_an_address_that_leads_nowhere_is_none(url: str) -> None:
    assert await ask(url, "/health") == NOTHING


@contextmanager
def talker(words: bytes) -> Iterator[str]:
    """Something that listens, says these bytes to whoever connects, and hangs up."""

    def talk() -> None:
        client, _ = listening.accept()
        with client:
            client.sendall(words)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=talk)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("words", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"\x00\xff" * 500, b"HTTP/1.1 2000 ?\r\n\r\n"])
async def test_what_is_no_http_is_none(words: bytes) -> None:
    with talker(words) as url:
        assert await ask(url, "/health") == NOTHING


async def test_proxies_of_the_environment_are_not_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert await ask(server.url, "/health") == Answer(200, b"ok")


async def test_no_connection_is_kept(server: Server) -> None:
    async with prober() as sending:
        for _ in range(3):
            await sending.send(server.url, Probe("GET", "/health"), LONG)
    assert len({port for *_, port in server.asked}) == 3


async def test_many_probes_go_at_once(server: Server) -> None:
    async with prober() as sending, anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(sending.send, server.url, Probe("GET", "/hangs"), SHORT)
        with anyio.fail_after(10):
            assert await sending.send(server.url, Probe("GET", "/health"), LONG) == Answer(200, b"ok")
