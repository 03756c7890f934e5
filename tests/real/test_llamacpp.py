"""llama.cpp through git, `apply` and a real agent: its server in the wheel, and the llama-server that is named.

What e2e shows of the wheel on every run is shown here of both; and what takes a while.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

import psutil
import pytest

from reconciler.domain.declaration import Declaration
from reconciler.engines.base import Answer, InFlight, Site
from reconciler.engines.llamacpp import STOP, LlamaCpp
from tests.e2e.site import interrupting, wait_until
from tests.real.clients import Following, Stream, complete, page
from tests.real.machine import LLAMA_SERVER, RealSite, gone, output, running, tell, timed
from tests.tiny_gguf import write_tiny_gguf, write_tiny_lora

if TYPE_CHECKING:
    from collections.abc import Iterator

WHEEL = (sys.executable, "-m", "reconciler.agent.llama_server")
PROGRAMS = {"wheel": WHEEL} | ({"llama-server": (LLAMA_SERVER,)} if LLAMA_SERVER else {})

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.parametrize("program", PROGRAMS)]

MODEL = """name: tiny
source: file:{weights}
context: {context}
unverified: true
adapters: {adapters}
scaling: {{min: {replicas}}}
profiles:
  - {{name: cpu, engine: llamacpp, memory_gib: 2, cpu_cores: 1, max_concurrency: 2, args: {args}}}
rollout: {{min_ready: 0s, withdraw_delay: 5s, drain_timeout: {drain}}}
"""

TRAINED = 131_072
STREAM = 3_000
"""Tokens: a second or so."""

LONG = 60_000
"""Tokens: an answer that nobody waits for to end."""


@pytest.fixture
def site(tmp_path: Path, program: str) -> Iterator[RealSite]:
    named = {program: Path(LLAMA_SERVER).absolute()} if LLAMA_SERVER and program != "wheel" else {}
    machine = RealSite(tmp_path / "m", programs=named)
    write_tiny_gguf(machine.weights, context=TRAINED)
    yield machine
    assert machine.clear() == [], "a process was left behind"


def declare(
    site: RealSite,
    message: str,
    *,
    weights: str = "tiny.gguf",
    context: int = 32_768,
    adapters: str = "[]",
    replicas: int = 1,
    args: str = "[]",
    drain: str = "2m",
) -> None:
    place = site.root / weights
    text = MODEL.format(weights=place, context=context, adapters=adapters, replicas=replicas, args=args, drain=drain)
    site.declare(text, message)


def test_it_serves_is_replaced_without_a_failed_request_and_is_repaired(site: RealSite, program: str) -> None:
    sql = write_tiny_lora(site.root / "sql.gguf")
    adapters = f"[{{name: sql, source: 'file:{sql}', scale: 0.5}}]"
    declare(site, "serve", adapters=adapters)
    with timed(f"llama.cpp, {program}: apply until ready, two slots and an adapter"):
        site.apply()
    before = site.one()
    assert [slot["n_ctx"] for slot in json.loads(page(before["address"], "/slots"))] == [32_768, 32_768]
    (loaded,) = json.loads(page(before["address"], "/lora-adapters"))
    assert (loaded["path"], loaded["scale"]) == (str(sql), 0.5)
    assert len(complete(before["address"])) > 0
    assert "no changes" in site.apply()

    declare(site, "longer context", context=65_536, adapters=adapters)
    with timed(f"llama.cpp, {program}: surge to another context"), Following(site, STREAM) as client:
        change = site.start("apply", "--auto-approve")
        for _ in running(change, 0.2):
            complete(client.addresses[0])
        out, err = change.communicate()
    assert change.returncode == 0, out + err
    after = site.one()
    assert after["id"] != before["id"]
    assert [each.trouble for each in client.streams if not each.complete] == []
    assert client.in_flight_at_withdrawal(before["address"]), "no stream was on its way when it was withdrawn"
    tell(f"llama.cpp, {program}: {len(client.streams)} streams of {STREAM} tokens during the surge, all complete")

    psutil.Process(after["pid"]).send_signal(SIGKILL)
    with timed(f"llama.cpp, {program}: kill -9, repaired by apply"):
        site.apply()
    again = site.one()
    assert (again["id"], again["state"]) == (after["id"], "ready")
    assert again["pid"] != after["pid"]
    complete(again["address"])


def test_the_second_signal_ends_what_hangs_on_the_first(site: RealSite, program: str) -> None:
    """A request that outlasts its drain: llama-server waits for it for ever, and so would its client."""
    declare(site, "serve", context=65_536)
    site.apply()
    address, family = site.one()["address"], site.family()
    streams = [Stream(address, LONG) for _ in range(3)]
    wait_until(lambda: _in_flight(address) == InFlight(2, 1), 20, "two requests have a slot each and the third waits")
    declare(site, "not at all", context=65_536, replicas=0, drain="1s")
    with interrupting(site.start("apply", "--auto-approve")) as stop:
        began = time.monotonic()
        gone(family, 5 + 1 + STOP.kill_after.total_seconds() + 60)  # the rest is for `apply` to begin
        tell(
            f"llama.cpp, {program}: apply that stops it with three requests in flight: {time.monotonic() - began:.1f} s"
        )
        out, err = stop.communicate(timeout=60)
    assert stop.returncode == 0, out + err
    assert not any(each.join(10).complete for each in streams), "they were to be too long"
    (log,) = (site.state / "agent" / "logs").glob("*.log")
    assert re.search("second (?:signal|interrupt), terminating immediately", log.read_text()), "one was enough"


def test_what_it_refuses_is_one_sentence_and_what_serves_stays(site: RealSite, program: str) -> None:
    declare(site, "serve")
    site.apply()
    before = site.one()
    site.write("junk.gguf", "this is no model")
    (site.root / "short.gguf").write_bytes(site.weights.read_bytes()[:100_000])
    cases = {
        "a wrong file": ("junk.gguf", "[]", "the weights are no GGUF file: they begin with 'this'"),
        "a file cut short": ("short.gguf", "[]", "the weights are incomplete"),
        "no file": ("nowhere.gguf", "[]", str(site.root / "nowhere.gguf")),
        "an unknown flag": ("tiny.gguf", "[--no-such-flag]", "llama-server does not know the argument --no-such-flag"),
    }
    for name, (weights, args, sentence) in cases.items():
        declare(site, name, weights=weights, args=args)
        with timed(f"llama.cpp, {program}: {name}, refused"):
            done = site.run("apply", "--auto-approve", code=1)
        assert sentence in done.stdout + done.stderr, done.stdout + done.stderr
        assert before["address"] in site.addresses()
    complete(before["address"])


def test_a_port_in_use_is_named(tmp_path: Path, program: str) -> None:
    """An agent looks before it launches: so the program by itself, on a port that is taken."""
    weights = write_tiny_gguf(tmp_path / "tiny.gguf")
    declared = Declaration.model_validate(
        {"model": "tiny", "engine": "llamacpp", "source": f"file:{weights}", "context": 256, "cpu_cores": 1}
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        launch = LlamaCpp().launch(declared, Site("127.0.0.1", port, str(weights)))
        said = LlamaCpp().read_failure(output(PROGRAMS[program], launch, tmp_path, 30))
    assert said == f"it cannot listen on 127.0.0.1 port {port}: the port is taken, or the address is not of this node"


def _in_flight(address: str) -> InFlight | None:
    """Requests that hold a slot, and that wait for one, as the agent reads them."""
    return LlamaCpp().read_load(Answer(200, page(address, LlamaCpp().load().path)))
