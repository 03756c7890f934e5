"""A door between the reconciler and one real agent: passes every request on, and at a chosen one something dies.

Reconciler and agent are untouched: both speak HTTP on Unix sockets, and the door is what lies between two machines.
Requests of all doors are counted together, in the order in which they arrive.
"""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = {"observation": "observe", "claim": "claim", "release": "release", "assignment": "assign"}
"""The last word of a path, and what `Fleet` calls it."""


class Moment(StrEnum):
    """What has become of a request when something dies."""

    BEFORE = "before"
    """It was sent and reaches no agent."""
    AFTER = "after"
    """The agent has done what it asks; nobody hears its answer."""
    LATE = "late"
    """It was under way: it reaches its agent just before the next reconciler's claim does."""
    FENCED = "fenced"
    """It was under way for still longer: it reaches its agent just after the next reconciler's claim."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request of the reconciler."""

    kind: str
    node: str

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.node}"


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The call of this kind with this number, counted from zero, and a moment of it."""

    kind: str
    number: int
    moment: Moment

    @override
    def __str__(self) -> str:
        return f"{self.kind}-{self.number}-{self.moment}"


@dataclass
class Toll:
    """Counts the calls through all doors, and strikes once at the chosen one."""

    point: CrashPoint | None = None
    kill: Callable[[str], None] = lambda _: None
    """Ends what is to die, given the node whose call it is; returns when it is dead."""
    armed: bool = True
    """Whether calls are counted; those of the next reconciler are not."""
    calls: list[Call] = field(default_factory=list)
    struck: Call | None = None
    delayed: tuple[str, Callable[[], None]] | None = None
    """The node whose request is still under way, and what delivers it."""
    arrivals: list[int] = field(default_factory=list)
    """The status with which a delayed request was answered; nobody heard it."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, kind: str, node: str) -> Moment | None:
        """Count a call; the moment, where it is the one at which to strike."""
        with self._lock:
            if not self.armed or self.struck is not None:
                return None
            number = sum(each.kind == kind for each in self.calls)
            self.calls.append(Call(kind, node))
            if self.point is None or (kind, number) != (self.point.kind, self.point.number):
                return None
            self.struck = self.calls[-1]
            return self.point.moment

    def deliver(self, node: str | None = None) -> None:
        """Let what is under way to this node arrive; to whichever, when none is named."""
        with self._lock:
            delayed = self.delayed
            if delayed is None or node not in {None, delayed[0]}:
                return
            self.delayed = None
        delayed[1]()


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    @override
    def handle_error(self, *args: Any) -> None:
        """Nothing: who dies half-way hangs up."""


class Door:
    """Listens where the inventory says that the agent of `node` is, and knows where it really is."""

    def __init__(self, node: str, here: Path, agent: Path) -> None:
        self.node = node
        self.here = here
        self.agent = agent
        self.toll = Toll()
        self._server: _Server | None = None
        self._connections: set[socket.socket] = set()
        self.open()

    def open(self) -> None:
        """Listen. Only while an agent does: a connection must be refused when it would be without the door."""
        door = self

        class Handler(_Relay):
            through = door

        self._server = _Server(str(self.here), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections and drop those that are open, as the kernel does when the process behind them dies."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self.here.unlink(missing_ok=True)
        for each in tuple(self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """The real agent's status and answer; OSError or HTTPException when it gives none."""
        link = http.client.HTTPConnection("agent")
        link.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.sock.settimeout(60)
        try:
            link.sock.connect(str(self.agent))
            link.request(method, path, body, {} if body is None else {"content-type": "application/json"})
            answer = link.getresponse()
            return answer.status, answer.read()
        finally:
            link.close()


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    through: Door

    def relay(self) -> None:
        door, toll = self.through, self.through.toll
        body = self.rfile.read(int(self.headers.get("content-length") or 0)) or None
        kind = KINDS[self.path.partition("?")[0].rpartition("/")[2]]
        moment = toll.count(kind, door.node)
        if moment is not None:
            self._strike(moment, body)
            return
        if kind == "claim" and toll.point is not None and toll.point.moment is Moment.LATE:
            toll.deliver(door.node)
        answer = self._forward(body)
        if kind == "claim" and toll.point is not None and toll.point.moment is Moment.FENCED:
            toll.deliver(door.node)
        if answer is None:
            self.close_connection = True
            return
        status, text = answer
        with suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    do_GET = do_POST = do_PUT = relay  # noqa: N815  # names that http.server looks for

    def _strike(self, moment: Moment, body: bytes | None) -> None:
        toll, node = self.through.toll, self.through.node
        self.close_connection = True
        if moment is Moment.AFTER:
            self._forward(body)
        if moment in {Moment.LATE, Moment.FENCED}:
            toll.delayed = node, lambda: self._arrive(body)
        toll.kill(node)

    def _arrive(self, body: bytes | None) -> None:
        answer = self._forward(body)
        assert answer is not None, "the agent of a request under way is gone"
        self.through.toll.arrivals.append(answer[0])

    def _forward(self, body: bytes | None) -> tuple[int, bytes] | None:
        try:
            return self.through.ask(self.command, self.path, body)
        except (OSError, http.client.HTTPException):
            return None

    @override
    def setup(self) -> None:
        super().setup()
        self.through._connections.add(self.connection)

    @override
    def finish(self) -> None:
        self.through._connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    @override
    def log_message(self, *args: Any) -> None:
        """Nothing: the test says what matters."""
