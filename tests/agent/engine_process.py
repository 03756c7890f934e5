"""A real engine process for tests, and a way to wait for facts about real processes."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.tiny_gguf import write_tiny_gguf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[2]
WHEEL = (sys.executable, "-m", "reconciler.agent.llama_server")
LLAMA_SERVER = shutil.which("llama-server")
PROGRAMS = [WHEEL] if LLAMA_SERVER is None else [WHEEL, (LLAMA_SERVER,)]
"""The programs that take llama-server's flags on this machine."""

LONG = 3_000
"""Tokens of an answer that is on its way for about half a second."""

_PAUSE = threading.Event()


def wait_until(fact: Callable[[], object], what: str, within: float = 20.0) -> None:
    """Poll until a fact holds; fail with its name after `within` seconds."""
    deadline = time.monotonic() + within
    while not fact():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within} s: {what}")
        _PAUSE.wait(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class EngineProcess:
    """One engine that a test talks to."""

    process: subprocess.Popen[bytes]
    port: int
    log_path: Path

    def request(self, path: str, body: object = None, timeout: float = 60.0) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def healthy(self) -> bool:
        assert self.process.poll() is None, self.log()
        try:
            return self.request("/health")[0] == 200
        except OSError:
            return False

    def in_flight(self) -> tuple[int, int]:
        """Requests that hold a slot, and that wait for one."""
        page = self.request("/metrics")[1].decode()
        values = dict(line.split(" ") for line in page.splitlines() if line.startswith("llamacpp:requests_"))
        return int(values["llamacpp:requests_processing"]), int(values["llamacpp:requests_deferred"])

    def catches(self, number: signal.Signals) -> bool:
        """Whether the process handles a signal itself: it does so a moment after it is healthy."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
        return bool(int(caught, 16) & 1 << (number - 1))

    def log(self) -> str:
        return self.log_path.read_text("utf-8", errors="replace")


@contextmanager
def started(command: Sequence[str], port: int, log_path: Path) -> Iterator[EngineProcess]:
    """Run a command line; what is left of it at the end is killed."""
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield EngineProcess(process, port, log_path)
    finally:
        process.kill()
        process.wait()


@contextmanager
def serving(directory: Path, *further: str, context: int = 2048) -> Iterator[EngineProcess]:
    """The wheel's server with a tiny model and one slot, healthy."""
    model, port = write_tiny_gguf(directory / "tiny.gguf", context=context), free_port()
    words = [*WHEEL, "--model", str(model), "--host", "127.0.0.1", "--port", str(port), "--ctx-size", str(context)]
    one = ["--parallel", "1", "--threads", "1", "--fit", "off", "--device", "none", "--metrics"]
    with started([*words, *one, *further], port, directory / "engine.log") as engine:
        wait_until(engine.healthy, "the engine is healthy")
        wait_until(lambda: engine.catches(signal.SIGTERM), "it handles SIGTERM")
        yield engine


class Answering:
    """A streamed completion that runs beside the test."""

    def __init__(self, engine: EngineProcess, tokens: int) -> None:
        self.status: int | None = None
        self.body = b""
        self.error: Exception | None = None
        self._engine = engine
        self._tokens = tokens
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        body = {"prompt": "a", "max_tokens": self._tokens, "stream": True}
        try:
            self.status, self.body = self._engine.request("/v1/completions", body)
        except (OSError, http.client.HTTPException) as error:
            self.error = error

    def finished(self) -> tuple[int, str]:
        """Pieces of the answer, and the reason it ended with."""
        self._thread.join(60)
        assert self.error is None, self.error
        assert self.status == 200
        events: list[Any] = [
            json.loads(line.removeprefix("data: "))
            for line in self.body.decode().splitlines()
            if line.startswith("data: {")
        ]
        assert self.body.rstrip().endswith(b"data: [DONE]")
        return len(events), events[-1]["choices"][0]["finish_reason"]

    def broken(self) -> bool:
        """Whether the connection was cut before the answer was through."""
        self._thread.join(60)
        return not self.body.rstrip().endswith(b"data: [DONE]")
