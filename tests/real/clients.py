"""Clients that know of a fleet what `status` says: they ask routable addresses, and look again every second."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tests.e2e.site import Site

LOOK_EVERY = 1.0
ANSWERED_WITHIN = 300.0
"""Seconds between two pieces of a stream; a client that waits longer is on an engine that hangs."""

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def page(address: str, path: str) -> bytes:
    """What an engine answers there."""
    with _OPENER.open(f"{address}{path}", timeout=20) as answer:
        body: bytes = answer.read()
        return body


def complete(address: str, model: str = "tiny", tokens: int = 8) -> str:
    """The likeliest text after one prompt, the same each time."""
    with _OPENER.open(_request(address, model, tokens, stream=False), timeout=ANSWERED_WITHIN) as answer:
        text: str = json.load(answer)["choices"][0]["text"]
        return text


@dataclass
class Stream:
    """A streamed completion, in a thread of its own from the moment it is made."""

    address: str
    tokens: int
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    pieces: int = 0
    complete: bool = False
    """Whether it ended with a reason and the mark that it is all."""
    trouble: str | None = None

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def join(self, within: float = ANSWERED_WITHIN) -> Self:
        self._thread.join(within)
        return self

    def _read(self) -> None:
        reason = None
        try:
            with _OPENER.open(
                _request(self.address, "tiny", self.tokens, stream=True), timeout=ANSWERED_WITHIN
            ) as body:
                for line in body:
                    data = line.decode().removeprefix("data: ").strip()
                    if data.startswith("{"):
                        reason, self.pieces = _reason(data) or reason, self.pieces + 1
                    self.complete = self.complete or (data == "[DONE]" and reason == "length")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.trouble = f"{type(error).__name__}: {error}"
        self.ended = time.monotonic()


class Following:
    """While the block runs: one stream after the other, and every second where requests may go."""

    def __init__(self, site: Site, tokens: int) -> None:
        self.streams: list[Stream] = []
        self.withdrawn: dict[str, float] = {}
        """Address → when it was first seen to be routable no more."""
        self.addresses = tuple(site.addresses())
        self._site, self._tokens = site, tokens
        self._end = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._look, self._stream)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(ANSWERED_WITHIN)

    def in_flight_at_withdrawal(self, address: str) -> list[Stream]:
        """Streams that an engine was sending when it was taken out of routing."""
        at = self.withdrawn[address]
        return [each for each in self.streams if each.address == address and each.began < at < (each.ended or at)]

    def _look(self) -> None:
        while not self._end.wait(LOOK_EVERY):
            seen = tuple(self._site.addresses())
            for address in set(self.addresses) - set(seen):
                self.withdrawn.setdefault(address, time.monotonic())
            self.addresses = seen

    def _stream(self) -> None:
        while not self._end.is_set():
            self.streams.append(Stream(self.addresses[0], self._tokens).join())


def _request(address: str, model: str, tokens: int, *, stream: bool) -> urllib.request.Request:
    body = {"model": model, "prompt": "hello", "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    data = json.dumps(body | {"stream": stream}).encode()
    return urllib.request.Request(f"{address}/v1/completions", data, {"content-type": "application/json"})


def _reason(data: str) -> str | None:
    event = json.loads(data)
    if "error" in event:
        raise ValueError(event["error"])
    found: str | None = event["choices"][0]["finish_reason"] if event["choices"] else None
    return found
