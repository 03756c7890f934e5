"""Parts of files over HTTP: ranges, redirects, timeouts and refusals. The only module here that speaks HTTP."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from reconciler import __version__
from reconciler.errors import WeightsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from reconciler.weights.meter import Meter

MOST_REDIRECTS = 5
"""A hub answers with one, to its storage; mirrors in front of it add one or two."""

_RANGE = re.compile(r"bytes (?:(?P<first>\d{1,18})-(?P<last>\d{1,18})|\*)/(?P<size>\d{1,18}|\*)")
_RATE_LIMIT = re.compile(r";\s*t\s*=\s*(\d{1,9})")
_CLIENT_ERROR, _SERVER_ERROR = 400, 500
_OK, _PARTIAL, _BEYOND, _TOO_MANY = 200, 206, 416, 429


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait: for a connection, for the next bytes of an answer, and for the whole of one."""

    connect: float = 10
    silence: float = 30
    answer: float = 300
    """The longest answer is an index of 20 MiB: enough at 100 kB/s, and the end of one that only drips."""


class Refused(WeightsError):
    """An answer with an error status; `code` and `told` are a hub's own words for it."""

    def __init__(self, netloc: str, status: int, headers: Mapping[str, str]) -> None:
        self.netloc = netloc
        self.status = status
        self.code = headers.get("x-error-code")
        self.told = headers.get("x-error-message")
        message, hint = f"{netloc} refuses with status {status}", None
        if status == _TOO_MANY:
            wait = _wait_seconds(headers)
            message = f"{netloc} takes no more requests for now (429)"
            hint = f"run it again in {wait} s" if wait is not None else "run it again in some minutes"
        elif status >= _SERVER_ERROR:
            message, hint = f"{netloc} fails with status {status}", "run it again later"
        super().__init__(message, hint=hint)


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a file from some position on; size and etag are None where the answer did not say."""

    data: bytes
    size: int | None
    etag: str | None


class Web:
    """One client for all sources of a run. What could not be reached once is not tried again."""

    def __init__(self, meter: Meter, patience: Patience | None = None) -> None:
        self.meter = meter
        self._patience = patience or Patience()
        self._client = httpx.Client(
            timeout=httpx.Timeout(self._patience.silence, connect=self._patience.connect),
            headers={"User-Agent": f"reconciler/{__version__}", "Accept-Encoding": "identity"},
        )
        self._unreachable: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def part(self, url: str, start: int, length: int, name: str, headers: Mapping[str, str] | None = None) -> Part:
        """So many bytes of a file, or up to its end; `name` is how people are told of it.

        WeightsError when they cannot be had, Refused among them for an error status.
        """
        asked = {**(headers or {}), "Range": f"bytes={start}-{start + length - 1}"}
        with self._answer(url, asked, name) as answer:
            etag = answer.headers.get("etag")
            found = _RANGE.fullmatch(answer.headers.get("content-range", ""))
            if answer.status_code == _PARTIAL and found is not None and found["first"] == str(start):
                size = None if found["size"] == "*" else int(found["size"])
                data = self._body(answer, length, name)
                if len(data) < (length if size is None else min(length, size - start)):
                    raise WeightsError(f"{_netloc(answer.url)} ended its answer for {name} too early")
                return Part(data, size, etag)
            if answer.status_code == _BEYOND and found is not None and found["size"] not in {None, "*"}:
                return Part(b"", int(found["size"]), etag)
            if answer.status_code == _OK and start == 0:
                told = answer.headers.get("content-length", "")
                return Part(self._body(answer, length, name), int(told) if told.isdecimal() else None, etag)
            raise WeightsError(
                f"{_netloc(answer.url)} does not answer ranges of {name}",
                hint="its header cannot be read without a download: use a hub, or a file on the node",
            )

    def whole(self, url: str, most: int, name: str, headers: Mapping[str, str] | None = None) -> bytes:
        """All of an answer that is at most so long."""
        with self._answer(url, headers or {}, name) as answer:
            data = self._body(answer, most + 1, name)
        if len(data) > most:
            raise WeightsError(f"the answer for {name} is longer than {most:,} bytes")
        return data

    def _body(self, answer: httpx.Response, most: int, name: str) -> bytes:
        """At most so many bytes of the answer; the connection is dropped when there are more."""
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise WeightsError(f"{_netloc(answer.url)} answers {name} compressed although asked not to")
        deadline = time.monotonic() + self._patience.answer
        data = bytearray()
        for chunk in answer.iter_raw():
            data += chunk
            self.meter.read(name, len(chunk))
            if len(data) >= most:
                break
            if time.monotonic() > deadline:
                raise WeightsError(f"{_netloc(answer.url)} took more than {self._patience.answer:g} s for {name}")
        return bytes(data[:most])

    @contextmanager
    def _answer(self, url: str, headers: Mapping[str, str], name: str) -> Iterator[httpx.Response]:
        """The answer after redirects. Every error of the client is told as one of ours, with who failed.

        A redirect to another place does not take the Authorization header along: httpx drops it.
        """
        netloc = ""
        try:
            request = self._client.build_request("GET", url, headers=headers)
            for _ in range(MOST_REDIRECTS + 1):
                netloc = _netloc(request.url)
                if netloc in self._unreachable:
                    raise _unreachable(netloc, self._unreachable[netloc])
                self.meter.asked()
                answer = self._client.send(request, stream=True)
                try:
                    following = answer.next_request
                    if following is None:
                        if answer.status_code >= _CLIENT_ERROR and answer.status_code != _BEYOND:
                            raise Refused(netloc, answer.status_code, answer.headers)
                        yield answer
                        return
                finally:
                    answer.close()
                scheme = following.url.scheme
                if scheme != "https" and not scheme == request.url.scheme == "http":
                    raise WeightsError(f"{netloc} redirects {name} to {scheme or 'nowhere'}, expected https")
                request = following
        except (httpx.ConnectError, httpx.ProxyError) as error:
            self._unreachable[netloc] = str(error)
            raise _unreachable(netloc, str(error)) from error
        except httpx.TimeoutException as error:
            raise self._timeout(netloc, name, error) from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:
            # Its text may hold a header, and with it a token. UnicodeError: a name that no resolver can be asked for.
            raise WeightsError(f"the connection to {netloc or 'it'} broke at {name}", hint="run it again") from error
        raise WeightsError(f"{netloc} redirects {name} more than {MOST_REDIRECTS} times")

    def _timeout(self, netloc: str, name: str, error: httpx.TimeoutException) -> WeightsError:
        if isinstance(error, httpx.ConnectTimeout):
            self._unreachable[netloc] = f"no connection within {self._patience.connect:g} s"
            return _unreachable(netloc, self._unreachable[netloc])
        return WeightsError(f"{netloc} sent nothing for {self._patience.silence:g} s at {name}", hint="run it again")


def _unreachable(netloc: str, why: str) -> WeightsError:
    return WeightsError(
        f"{netloc} cannot be reached: {why or 'no connection'}",
        hint="check the network and its proxy; HF_ENDPOINT names a mirror of the hub",
    )


def _netloc(url: httpx.URL) -> str:
    """Who answers, without user, password and query: those may be secret."""
    return url.host if url.port is None else f"{url.host}:{url.port}"


def _wait_seconds(headers: Mapping[str, str]) -> int | None:
    """How long a refused client should wait, by Retry-After or by the RateLimit header that hubs send."""
    told = headers.get("retry-after", "")
    if told.isdecimal():
        return int(told[:9])
    found = _RATE_LIMIT.search(headers.get("ratelimit", ""))
    return int(found[1]) if found else None
