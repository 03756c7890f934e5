"""An engine that wants a key gets it from the agent, and nobody else does."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx
import pytest
from typing_extensions import override

from reconciler.agent.engine_keys import KEPT_KEYS, engine_key, given_secrets
from reconciler.agent.glance import answering
from reconciler.agent.launch_files import launch_directory
from reconciler.agent.lifecycle import launching
from reconciler.domain.model_spec import SecretRef
from reconciler.engines.base import Answer
from reconciler.engines.registry import support
from tests.agent.bench import HEALTH, LOAD, OK, TOKEN, Bench, ScriptedEngine
from tests.agent.entries import moment, pending, run_entry, stop_entry
from tests.agent.machine import NO_TLS, Machine
from tests.tiny_gguf import write_tiny_gguf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "k-s3cr3t-0815"
BY_NAME: dict[str, str | SecretRef] = {"SCRIPTED_KEY": SecretRef(secret="key")}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text(f"{KEY}\n")
    return tmp_path / "secrets"


@pytest.mark.parametrize(
    ("env", "key"),
    [
        (None, None),
        ({"OTHER_KEY": SecretRef(secret="key")}, None),
        (BY_NAME, KEY),
        ({"SCRIPTED_KEY": "plain"}, "plain"),
        ({"SCRIPTED_KEY": SecretRef(secret="none")}, None),
    ],
)
def test_the_key_is_what_its_variable_holds(secrets: Path, env: dict[str, str | SecretRef], key: str | None) -> None:
    assert engine_key(run_entry(env=env), ScriptedEngine(), secrets, secrets.parent) == key


def test_an_engine_that_nobody_knows_has_no_key(secrets: Path) -> None:
    assert engine_key(run_entry(env=BY_NAME), None, secrets, secrets.parent) is None


@pytest.mark.anyio
async def test_every_probe_carries_the_key_the_engine_was_started_with(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.config.secrets.mkdir(parents=True)
    (bench.config.secrets / "key").write_text(KEY)
    await bench.send(run_entry(env=BY_NAME))
    (bench.config.secrets / "key").write_text("another one, for the next start")
    bench.prober.answers |= {HEALTH.path: OK, TOKEN.path: OK, LOAD.path: Answer(200, b"0 0")}
    await bench.after(5)
    await bench.after(5)
    assert {path for _, path, _ in bench.prober.asked} == {HEALTH.path, TOKEN.path, LOAD.path}
    assert bench.prober.keys == {KEY}
    assert KEY not in bench.record().model_dump_json()
    assert KEY not in repr(bench._replicas()[0].watch)


@pytest.mark.anyio
async def test_the_next_agent_asks_with_the_key_that_the_engine_has_until_it_is_launched_again(tmp_path: Path) -> None:
    bench, entry = Bench(tmp_path), run_entry(env=BY_NAME)
    bench.config.secrets.mkdir(parents=True)
    (bench.config.secrets / "key").write_text(KEY)
    await bench.serve(entry)
    (bench.config.secrets / "key").write_text("another-key")
    kept = launch_directory(bench.config.directory, entry.id) / KEPT_KEYS
    assert kept.stat().st_mode & 0o777 == 0o600
    bench.restart()
    bench.prober.keys.clear()
    await bench.after(5)
    assert bench.prober.keys == {KEY}
    assert given_secrets(entry, bench.config) == (("key", "another-key"), ("key", KEY))
    assert KEY not in bench.record().model_dump_json()

    bench.driver.newest.end(code=1)
    await bench.after(5)
    bench.prober.keys.clear()
    await bench.after(60)
    assert bench.driver.newest.spec.env["SCRIPTED_KEY"] == "another-key"
    await bench.after(5)
    assert bench.prober.keys == {"another-key"}
    assert ("key", KEY) in given_secrets(entry, bench.config), "the log of the launch before may show it"

    await bench.send(stop_entry(entry, withdraw=0, drain=0))
    bench.driver.newest.end(code=0)
    await bench.after(5)
    assert not kept.parent.exists()


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[1]", b'[["key"]]', b"\xff"])
@pytest.mark.anyio
async def test_where_nothing_readable_was_kept_the_secret_counts(tmp_path: Path, content: bytes | None) -> None:
    bench, entry = Bench(tmp_path), run_entry(env=BY_NAME)
    bench.config.secrets.mkdir(parents=True)
    (bench.config.secrets / "key").write_text(KEY)
    await bench.serve(entry)
    kept = launch_directory(bench.config.directory, entry.id) / KEPT_KEYS
    if content is None:
        kept.unlink()
    else:
        kept.write_bytes(content)
    bench.restart()
    bench.prober.keys.clear()
    await bench.after(5)
    assert bench.prober.keys == {KEY}
    assert given_secrets(entry, bench.config) == (("key", KEY),)


class Guarded(BaseHTTPRequestHandler):
    """Answers as llama-server, to whom the key is shown."""

    def do_GET(self) -> None:
        allowed = self.headers["Authorization"] == f"Bearer {KEY}"
        body = b'{"status": "ok", "data": [{"id": "tiny"}]}' if allowed else b"{}"
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:  # the name of its base
        """Nothing: a test's output is its result."""


@pytest.fixture
def guarded() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_look_without_an_agent_shows_the_key(guarded: int, secrets: Path, tmp_path: Path) -> None:
    entry = run_entry(env={"LLAMA_API_KEY": SecretRef(secret="key")})
    record = launching(pending(entry), guarded, f"http://127.0.0.1:{guarded}", moment(0))
    assert answering([record], support, secrets, tmp_path, within=5) == {entry.id}
    assert answering([record], support, tmp_path / "elsewhere", tmp_path, within=5) == frozenset()


def test_llama_cpp_serves_whom_it_is_told_to_serve(tmp_path: Path) -> None:
    weights = write_tiny_gguf(tmp_path / "tiny.gguf")
    machine = Machine(tmp_path / "state", weights)
    machine.config.secrets.mkdir(parents=True)
    (machine.config.secrets / "key").write_text(KEY)
    try:
        seen = machine.serve(machine.entry(env={"LLAMA_API_KEY": SecretRef(secret="key")}))
        body = {"model": "tiny", "prompt": "hello", "max_tokens": 1}
        with httpx.Client(base_url=seen.address or "", verify=NO_TLS, trust_env=False, timeout=20) as client:
            assert client.post("/v1/completions", json=body).status_code == 401
            headers = {"authorization": f"Bearer {KEY}"}
            assert client.post("/v1/completions", json=body, headers=headers).status_code == 200
        assert not any(KEY in " ".join(each.cmdline()) for each in machine.processes())
    finally:
        assert machine.clear() == []
    assert [path for path in (machine.state / "agent" / "launches").rglob("*") if path.is_file()] == []
