"""Somebody else's API: a real HTTP server on loopback that answers as it is told and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    path: str
    authorization: str | None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; `hangs` sends the headers and never the end of the body."""

    body: bytes = b""
    status: int = 200
    location: str | None = None
    hangs: bool = False


def listing(*names: str) -> Reply:
    """A list of models as OpenAI's API sends it."""
    return Reply(json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())


NOTHING = Reply(b"not here", 404)


@dataclass
class Provider:
    """One server; `reply` may be exchanged while it runs."""

    netloc: str
    reply: Callable[[Asked], Reply] = lambda _: NOTHING
    asked: list[Asked] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://{self.netloc}"

    def serves(self, *names: str, key: str | None = None, below: str = "/v1") -> None:
        """List these models below a path, for this key."""

        def reply(asked: Asked) -> Reply:
            if asked.path.partition("?")[0] != f"{below}/models":
                return NOTHING
            if key is not None and asked.authorization != f"Bearer {key}":
                return Reply(b'{"error": {"message": "no such key"}}', 401)
            return listing(*names)

        self.reply = reply

    def answers(self, reply: Reply) -> None:
        """Say the same to everything."""
        self.reply = lambda _: reply


@contextmanager
def provider(host: str = "127.0.0.1") -> Iterator[Provider]:
    """A provider while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = Asked(self.path, self.headers.get("authorization"))
            here.asked.append(asked)
            reply = here.reply(asked)
            self.send_response(reply.status)
            if reply.location is not None:
                self.send_header("location", reply.location)
            self.send_header("content-length", str(len(reply.body) + reply.hangs))
            self.end_headers()
            self.wfile.write(reply.body)
            if reply.hangs:
                self.wfile.flush()
                here.closing.wait(30)

        @override
        def log_message(self, *args: Any) -> None:
            """Nothing: the test says what matters."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        @override
        def handle_error(self, *args: Any) -> None:
            """Nothing: who hangs up half-way may."""

    server = Server((host, 0), Handler)
    shown = f"[{host}]" if ":" in host else host
    here = Provider(f"{shown}:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield here
    finally:
        here.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
