"""Parts of files over real HTTP: what servers do, and what they do wrong."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from reconciler.errors import WeightsError
from reconciler.weights.meter import Meter
from reconciler.weights.web import MOST_REDIRECTS, Refused, Web
from tests.weights.conftest import SHORT
from tests.weights.hub_server import send, send_range, serving
from tests.weights.tensor_files import Content

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.server import BaseHTTPRequestHandler

    Respond = Callable[[BaseHTTPRequestHandler], None]

ABC = Content.of(bytes(range(256)) * 4)


def ranges(handler: BaseHTTPRequestHandler) -> None:
    send_range(handler, ABC, {"ETag": '"abc"'})


def refusal(web: Web, respond: Respond, *, start: int = 0, length: int = 100, tls: bool = False) -> str:
    with serving(respond, tls=tls) as address, pytest.raises(WeightsError) as refused:
        web.part(f"{address}/file?token=s3cret", start, length, "file")
    assert "s3cret" not in refused.value.message + str(refused.value.hint)
    return refused.value.message.replace(address.partition("//")[2], "SERVER")


@pytest.mark.parametrize(("start", "length"), [(0, 10), (5, 1), (1000, 24), (1000, 500), (0, 5000)])
def test_a_part_is_those_bytes_up_to_the_end(web: Web, start: int, length: int) -> None:
    with serving(ranges) as address:
        part = web.part(f"{address}/file", start, length, "file")
    assert part.data == ABC.head[start : start + length]
    assert (part.size, part.etag) == (1024, '"abc"')


def test_a_part_behind_the_end_is_empty(web: Web) -> None:
    with serving(ranges) as address:
        assert web.part(f"{address}/file", 5000, 10, "file").data == b""


def test_requests_and_bytes_are_counted(web: Web) -> None:
    with serving(ranges) as address:
        web.part(f"{address}/file", 0, 10, "file")
        web.part(f"{address}/file", 100, 20, "file")
    assert (web.meter.requests, web.meter.bytes) == (2, 30)


def test_a_server_without_ranges_is_read_from_the_beginning_and_no_further(web: Web) -> None:
    sent: list[int] = []

    def without(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(2**30))
        handler.end_headers()
        try:
            for _ in range(2**10):
                handler.wfile.write(bytes(2**20))
                sent.append(2**20)
        except OSError:  # the client has gone
            handler.close_connection = True

    with serving(without) as address:
        part = web.part(f"{address}/file", 0, 1000, "file")
    assert (part.data, part.size) == (bytes(1000), 2**30)
    assert sum(sent) < 2**26, "the client went away long before the end"


def test_a_server_without_ranges_is_named_where_the_middle_is_needed(web: Web) -> None:
    message = refusal(web, lambda handler: send(handler, 200, {}, ABC.head), start=10)
    assert message == "SERVER does not answer ranges of file"


def test_another_range_than_asked_is_refused(web: Web) -> None:
    def other(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 206, {"Content-Range": "bytes 50-149/1024"}, bytes(100))

    assert refusal(web, other) == "SERVER does not answer ranges of file"


@pytest.mark.parametrize("told", ["bytes 0-99/1024", "bytes 0-99/*"])
def test_an_answer_that_is_shorter_than_it_says_is_refused(web: Web, told: str) -> None:
    def short(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 206, {"Content-Range": told}, bytes(60))

    assert refusal(web, short) == "SERVER ended its answer for file too early"


def test_a_connection_that_ends_in_the_middle_is_named(web: Web) -> None:
    def cut(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 206, {"Content-Range": "bytes 0-99/1024", "Content-Length": "100"}, bytes(60))
        handler.close_connection = True

    assert refusal(web, cut).startswith("the connection to SERVER broke at file")


def test_silence_ends(web: Web) -> None:
    over = threading.Event()

    def silent(handler: BaseHTTPRequestHandler) -> None:
        over.wait(20)
        handler.close_connection = True

    try:
        assert refusal(web, silent) == f"SERVER sent nothing for {SHORT.silence:g} s at file"
    finally:
        over.set()


def test_an_answer_that_only_drips_ends_too(web: Web) -> None:
    over = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 206, {"Content-Range": "bytes 0-99/1024", "Content-Length": "100"})
        for _ in range(100):
            if over.wait(SHORT.silence / 2):
                break
            handler.wfile.write(b"x")
        handler.close_connection = True

    try:
        assert refusal(web, drip) == f"SERVER took more than {SHORT.answer:g} s for file"
    finally:
        over.set()


def test_a_compressed_answer_is_refused(web: Web) -> None:
    assert refusal(web, lambda handler: send(handler, 200, {"Content-Encoding": "gzip"}, b"x")) == (
        "SERVER answers file compressed although asked not to"
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 500])
def test_an_error_status_is_told_as_it_is(web: Web, status: int) -> None:
    answer = {"X-Error-Code": "Why"}
    with serving(lambda handler: send(handler, status, answer)) as address, pytest.raises(Refused) as refused:
        web.part(f"{address}/file", 0, 10, "file")
    assert (refused.value.status, refused.value.code) == (status, "Why")


def test_a_redirect_elsewhere_loses_the_token_and_one_at_home_keeps_it(web: Web) -> None:
    tokens: list[tuple[str, str | None]] = []

    def away(handler: BaseHTTPRequestHandler) -> None:
        tokens.append(("away", handler.headers.get("Authorization")))
        ranges(handler)

    with serving(away) as elsewhere:

        def home(handler: BaseHTTPRequestHandler) -> None:
            tokens.append((handler.path, handler.headers.get("Authorization")))
            send(handler, 302, {"Location": "/moved" if handler.path == "/file" else f"{elsewhere}/file"})

        with serving(home) as address:
            part = web.part(f"{address}/file", 3, 4, "file", {"Authorization": "Bearer hf_x"})
    assert part.data == ABC.head[3:7]
    assert tokens == [("/file", "Bearer hf_x"), ("/moved", "Bearer hf_x"), ("away", None)]


def test_redirects_without_end_are_ended(web: Web) -> None:
    message = refusal(web, lambda handler: send(handler, 302, {"Location": "/file"}))
    assert message == f"SERVER redirects file more than {MOST_REDIRECTS} times"


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/file", "file:///etc/passwd", "http://[::"])
def test_a_redirect_to_what_is_no_http_is_refused(web: Web, location: str) -> None:
    assert "SERVER" in refusal(web, lambda handler: send(handler, 302, {"Location": location}))


def test_https_is_read_and_never_left(web: Web) -> None:
    with serving(ranges, tls=True) as address:
        assert web.part(f"{address}/file", 0, 3, "file").data == b"\0\1\2"
    message = refusal(web, lambda handler: send(handler, 302, {"Location": "http://127.0.0.1:9/file"}), tls=True)
    assert message == "SERVER redirects file to http, expected https"


def test_a_certificate_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with Web(Meter(), SHORT) as web:
        assert "CERTIFICATE_VERIFY_FAILED" in refusal(web, ranges, tls=True)


def test_what_could_not_be_reached_is_not_tried_again(web: Web) -> None:
    with serving(ranges) as address:
        pass
    messages = set()
    for _ in range(3):
        with pytest.raises(WeightsError) as refused:
            web.part(f"{address}/file", 0, 1, "file")
        messages.add(refused.value.message)
    assert [message.partition(" cannot be reached: ")[0] for message in messages] == [address.partition("//")[2]]
    assert web.meter.requests == 1


def test_the_whole_of_an_answer_has_a_bound(web: Web) -> None:
    with serving(ranges) as address:
        assert web.whole(f"{address}/file", 1024, "file") == ABC.head
        with pytest.raises(WeightsError, match="the answer for file is longer than 1,023 bytes"):
            web.whole(f"{address}/file", 1023, "file")


def test_an_address_that_is_none_is_an_error_of_ours(web: Web) -> None:
    for url in ("https://exa mple/x", "https://[::/x", "https://" + "a" * 300 + "/x"):
        with pytest.raises(WeightsError):
            web.part(url, 0, 1, "file")
