"""Agents that answer wrongly: a clear message, the right exit code, and no replica stopped because of it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from tests.e2e.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)

SEEN: dict[str, Any] = {"name": "this-machine", "boot_id": "b", "revision": 1, "engines": ["llamacpp"]}
GRANTED = {"epoch": 1, "ttl_seconds": 30}


@contextmanager
def answering(**answers: tuple[int, object]) -> Iterator[str]:
    """A server on loopback that gives one answer to each kind of request; its base URL."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            kind = self.path.split("?")[0].rpartition("/")[2]
            status, body = answers.get(kind, (404, {}))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = answer  # noqa: N815  # names that http.server looks for

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def machine(root: Path, url: str) -> Site:
    site = Site(root / "m")
    site.write("cluster/nodes/here.yaml", site.read("cluster/nodes/here.yaml").replace("local", url))
    site.model()
    site.commit()
    return site


HEARD = {"observation": (200, SEEN)}
CLAIMED = HEARD | {"claim": (200, GRANTED)}


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        ({"observation": (200, b"<html>")}, 7, "this-machine"),
        ({"observation": (200, SEEN | {"name": "another"})}, 7, "this-machine"),
        ({"observation": (500, b"boom")}, 7, "this-machine"),
        (HEARD | {"claim": (200, b"junk")}, 1, "cannot read"),
        (HEARD | {"claim": (507, {"message": "No space left on device"})}, 1, "No space left"),
        (CLAIMED | {"assignment": (200, b"{}")}, 1, "cannot read"),
        (CLAIMED | {"assignment": (200, {"revision": 1})}, 1, "nothing came of it"),
        (CLAIMED | {"assignment": (409, {"reason": "stale", "message": "too old"})}, 1, "too old"),
    ],
)
def test_apply_ends_with_a_message(tmp_path: Path, answers: dict[str, Any], code: int, said: str) -> None:
    with answering(**answers) as url:
        site = machine(tmp_path, url)
        done = site.run("apply", "--auto-approve", code=code)
    told = done.stdout + done.stderr
    assert said in told
    assert "Traceback" not in told
    assert "fault in reconciler" not in told


def test_a_replica_that_contradicts_itself_is_not_believed(tmp_path: Path) -> None:
    placement = {"id": "tiny/0@00000000", "shards": [{"node": "this-machine"}]}
    declaration = {"model": "tiny", "engine": "llamacpp", "source": "file:/x.gguf"}
    entry = {"id": "tiny/0@00000000", "fleet": "test", "model": "ghost", "ordinal": 0, "placement": placement}
    entry |= {"declaration": declaration, "digest": "d", "ready_timeout": "PT30M"}
    seen = SEEN | {"replicas": [{"entry": entry, "state": "ready", "routable": True}]}
    with answering(observation=(200, seen)) as url:
        site = machine(tmp_path, url)
        assert "unreachable" in site.run("plan").stdout or "0 of 1 nodes heard" in site.run("plan").stdout
        (change,) = site.plan()["changes"]
    assert change["action"] in {"create", "none"}
    assert change["schedule"]["kind"] == "waiting" or change["action"] == "none"


def test_escapes_from_a_node_do_not_reach_the_terminal(tmp_path: Path) -> None:
    with answering(observation=(500, "\x1b]0;PWNED\x07\u202egnp".encode())) as url:
        site = machine(tmp_path, url)
        for command in (("plan",), ("status",), ("apply", "--auto-approve")):
            done = site.run(*command, code=None)
            assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr)
