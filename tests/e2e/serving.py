"""Who serves, from the truth: the process table, the engines' own answers, and what their agents say of routing.

An engine serves while its agent offers it and it answers. Both are taken a little too long, never too short: an answer
counts from the question before the first good one until the first bad one, an offer from and until the instants that
follow from its agent's own clock. What is then found to be too few was too few; a lack that is shorter than the time
between two questions may go unseen.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.e2e.door import Door

EVERY = 0.1
"""Seconds between two looks, and between two questions to one engine."""

POLL = "2s"
_DURATION = TypeAdapter(timedelta)


@dataclass
class Stretches:
    """From when until when something held; the last one may still be open."""

    closed: list[tuple[float, float]] = field(default_factory=list)
    open_since: float | None = None

    def put(self, *, holds: bool, since: float, until: float) -> None:
        """It holds, since then; or it does not, and did so until then at the latest."""
        if holds and self.open_since is None:
            self.open_since = since
        elif not holds and self.open_since is not None:
            self.closed.append((self.open_since, until))
            self.open_since = None

    def held_at(self, instant: float) -> bool:
        is_open = self.open_since is not None and self.open_since <= instant
        return is_open or any(begin <= instant < end for begin, end in self.closed)


@dataclass
class Engine:
    """One engine process."""

    pid: int
    port: int
    answered: Stretches = field(default_factory=Stretches)
    offered: Stretches = field(default_factory=Stretches)
    _bad_at: float | None = None

    def ask(self) -> None:
        """One question; a good answer may have been possible since the last bad one."""
        sent = time.monotonic()
        healthy = _is_healthy(self.port)
        since = sent if self._bad_at is None else self._bad_at
        self.answered.put(holds=healthy, since=since, until=time.monotonic())
        self._bad_at = None if healthy else sent

    def serves_at(self, instant: float) -> bool:
        return self.answered.held_at(instant) and self.offered.held_at(instant)


class Watch:
    """While the block runs: every engine that has `mark` in its command line, and what is said of it at these doors."""

    def __init__(self, mark: str, doors: Sequence[Door]) -> None:
        self.engines: dict[int, Engine] = {}
        self.most = 0
        """Engine processes that were there at once."""
        self._mark = mark.encode()
        self._doors = doors
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        self._span = (0.0, 0.0)

    def __enter__(self) -> Self:
        for engine in self._look():
            engine.ask()
        for door in self._doors:
            self._hear(door, None)
        self._span = (time.monotonic(), 0.0)
        self._begin(self._follow)
        for door in self._doors:
            self._begin(partial(self._listen, door))
        for engine in tuple(self.engines.values()):
            self._begin(partial(self._question, engine))
        return self

    def __exit__(self, *_: object) -> None:
        self._span = (self._span[0], time.monotonic())
        self._end.set()
        for each in self._threads:
            each.join(30)

    def fewest(self) -> int:
        """How many served at once at the worst instant of the block: it can only be one at which a stretch ends."""
        begin, end = self._span
        closed = [each for engine in self.engines.values() for each in engine.answered.closed + engine.offered.closed]
        instants = [begin, *(until for _, until in closed if begin <= until < end)]
        return min(sum(engine.serves_at(instant) for engine in self.engines.values()) for instant in instants)

    def _begin(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self) -> None:
        while not self._end.wait(EVERY):
            for engine in self._look():
                self._begin(partial(self._question, engine))

    def _look(self) -> list[Engine]:
        """The engines that were not there before."""
        found = dict(engine_processes(self._mark))
        new = [Engine(pid, port) for pid, port in found.items() if pid not in self.engines]
        self.engines |= {each.pid: each for each in new}
        self.most = max(self.most, len(found))
        return new

    def _question(self, engine: Engine) -> None:
        while not self._end.wait(EVERY) and Path(f"/proc/{engine.pid}").exists():
            engine.ask()
        engine.ask()

    def _listen(self, door: Door) -> None:
        since: int | None = None
        while not self._end.is_set():
            since = self._hear(door, since)
            if since is None:
                self._end.wait(EVERY)

    def _hear(self, door: Door, since: int | None) -> int | None:
        """Its revision; None when it is not there: then what it said last goes on."""
        sent = time.monotonic()
        try:
            seen = observation(door, since)
        except (OSError, http.client.HTTPException):
            return None
        if seen is None:
            return None
        heard = time.monotonic()
        for replica in seen["replicas"]:
            engine = self.engines.get(replica["pid"])
            if engine is not None:
                ago = _DURATION.validate_python(replica["state_for"]).total_seconds()
                engine.offered.put(holds=replica["routable"], since=sent - ago, until=heard - ago)
        revision: int = seen["revision"]
        return revision


def observation(door: Door, since: int | None = None) -> dict[str, Any] | None:
    """What the real agent says of its node; None while it is taking over. OSError or HTTPException without one."""
    status, text = door.ask("GET", "/v1/observation" + ("" if since is None else f"?since={since}&wait={POLL}"))
    seen: dict[str, Any] = json.loads(text)
    return seen if status == http.client.OK else None


def engine_processes(mark: bytes) -> Iterator[tuple[int, int]]:
    """Pid and port of every process that has the mark and a port as words of its command line."""
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        if mark in words and b"--port" in words:
            yield int(each.name), int(words[words.index(b"--port") + 1])


def _is_healthy(port: int) -> bool:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        link.request("GET", "/health")
        return link.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()
