"""`python -m reconciler.agent.llama_server FLAGS`: llama.cpp's own HTTP server out of the xllamacpp wheel.

Stands in for the `llama-server` program where that is not installed: same flags, same API, same log. Better in one
point: at SIGTERM it lets requests in flight end before it exits 0 (llama-server hangs then). A second SIGTERM, or
SIGINT, exits 1 at once. While the model loads, a signal kills it, as it does llama-server.

Nothing here may import pydantic or FastAPI: this process is the engine, and its memory is the model's.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOK_SECONDS = 0.05
_IDLE_LOOKS = 4
"""Idle means so many looks in a row: between two, a request that a thread has read reaches the queue."""
_CONNECTED_LOOKS = 20
"""The same while clients are connected: an answer that has left its slot reaches its socket within a second, whatever
else runs on the machine."""

_ESTABLISHED = "01"


def main(words: Sequence[str]) -> int:
    """Serve until a signal; the exit status. What is wrong stands on stderr."""
    try:
        import xllamacpp  # noqa: PLC0415  # optional: the message names the extra

        from reconciler.agent.llama_arguments import Refused, parse  # noqa: PLC0415  # needs the wheel
    except ImportError as error:
        return _fail(f"error: {error}; install llama.cpp's server with: pip install 'reconciler[local]'")
    try:
        params = parse([*_key_words(), *words])
    except Refused as refused:
        return _fail(str(refused))
    # Python's own handler would hold an interrupt back until the model is loaded.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        server = xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        return _fail(f"error: {error}")
    status = _serve(server)
    sys.stderr.flush()
    # Not by way of the server's destructor: it holds the interpreter's lock, waits 30 s for a client that has come
    # in the meantime, and frees nothing that the kernel does not.
    os._exit(status)


def _key_words() -> Sequence[str]:
    """The API key, which llama-server too takes from its environment: on a command line everybody can read it."""
    key = os.environ.get("LLAMA_API_KEY")
    return ("--api-key", key) if key else ()


def _serve(server: Any) -> int:
    """Wait for a signal, then for the requests in flight or for another signal."""
    awake, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    for number in (signal.SIGTERM, signal.SIGINT):
        # The handler itself does nothing: its number arrives on the wake-up socket, where none can be missed.
        signal.signal(number, lambda *_: None)
    awake.recv(1)
    _say("draining: waiting for requests in flight")
    port = int(server.listening_address.rpartition(":")[2])
    idle_looks, wanted = 0, _CONNECTED_LOOKS
    while idle_looks < wanted:
        if select.select([awake], [], [], _LOOK_SECONDS)[0]:
            _say("second signal, terminating immediately")
            return 1
        unsent = _unsent_by_connection(port)
        wanted = _CONNECTED_LOOKS if unsent else _IDLE_LOOKS
        idle_looks = 0 if _in_flight(server) or any(unsent) else idle_looks + 1
    _say("drained, bye")
    return 0


def _in_flight(server: Any) -> bool:
    """Whether any request holds a slot or waits for one, by the server's own metrics."""
    gauges = re.findall(r"^llamacpp:requests_(?:processing|deferred) ([0-9]+)", server.handle_metrics(), re.MULTILINE)
    return any(int(value) > 0 for value in gauges)


def _unsent_by_connection(port: int) -> list[int]:
    """Bytes that each connected client has yet to take: a slot is free before its answer is through."""
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/self/net/{table}").read_text("ascii").splitlines()[1:]
    ]
    return [
        int(queues.partition(":")[0], 16)
        for _, local, _, state, queues, *_ in rows
        if state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port
    ]


def _say(text: str) -> None:
    """One line on stderr, where the engine's own log goes."""
    sys.stderr.write(f"llama_server: {text}\n")
    sys.stderr.flush()


def _fail(text: str) -> int:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
