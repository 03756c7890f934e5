"""vLLM's CPU build through git, `apply`, `run` and a real agent: each test is one machine and its story.

Starts take half a minute and more, so that what can share one does.
"""

from __future__ import annotations

import urllib.error
from signal import SIGKILL
from typing import TYPE_CHECKING

import psutil
import pytest

from reconciler.engines.vllm import Vllm
from tests.e2e.site import interrupting, wait_until
from tests.real.clients import Following, complete
from tests.real.machine import STARTS_WITHIN, VLLM, RealSite, gone, running, tell, timed
from tests.tiny_llama import write_tiny_adapter, write_tiny_llama

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(VLLM is None, reason="RECONCILER_VLLM_PYTHON names no Python with vLLM"),
]

# Eager, because compiling takes another half a minute; what is tested here does not depend on it.
MODEL = """name: tiny
source: file:{weights}
context: {context}
unverified: true
adapters: {adapters}
scaling: {{min: {replicas}}}
profiles:
  - {{name: cpu, engine: vllm, memory_gib: 3, cpu_cores: 1, max_concurrency: 4, args: [--enforce-eager]}}
rollout: {{min_ready: 0s, withdraw_delay: 5s, drain_timeout: 5m, ready_timeout: 10m}}
"""

STREAM = 4_000
"""Tokens: ten seconds and more, so that one is always on its way when something is withdrawn."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[RealSite]:
    assert VLLM is not None
    machine = RealSite(tmp_path / "m", programs={"vllm": VLLM})
    write_tiny_llama(machine.root / "llama")
    yield machine
    assert machine.clear() == [], "a process was left behind"


def declare(
    site: RealSite,
    message: str,
    *,
    weights: str = "llama",
    context: int = 8192,
    adapters: str = "[]",
    replicas: int = 1,
) -> None:
    place = site.root / weights
    site.declare(MODEL.format(weights=place, context=context, adapters=adapters, replicas=replicas), message)


def test_it_serves_takes_adapters_live_and_is_replaced_without_a_failed_request(site: RealSite) -> None:
    sql, code = write_tiny_adapter(site.root / "sql"), write_tiny_adapter(site.root / "code", rank=4)
    first, second = (f"{{name: {path.name}, source: 'file:{path}'}}" for path in (sql, code))
    declare(site, "serve", adapters=f"[{first}]")
    with timed("vLLM: apply until ready, with an adapter"):
        site.apply()
    address, pid = site.one()["address"], site.one()["pid"]
    plain = complete(address)
    assert complete(address, "sql") != plain, "the adapter changes nothing"
    assert "no changes" in site.apply()

    declare(site, "another adapter", adapters=f"[{first}, {second}]")
    with timed("vLLM: apply of another adapter, live"):
        site.apply()
    assert site.one()["pid"] == pid, "it was restarted for an adapter"
    assert complete(address, "code") != plain
    declare(site, "without the first", adapters=f"[{second}]")
    with timed("vLLM: apply without the first adapter, live"):
        site.apply()
    assert site.one()["pid"] == pid
    assert complete(address, "code") != plain
    with pytest.raises(urllib.error.HTTPError, match="404"):
        complete(address, "sql")
    surge(site, f"[{second}]")


def test_what_is_killed_leaves_nothing_behind_and_is_repaired(site: RealSite) -> None:
    declare(site, "serve")
    site.apply()
    kill_the_core(site)
    kill_the_server(site)


def surge(site: RealSite, adapters: str) -> None:
    """A longer context: a second engine beside the first, and streams that never stop."""
    before = site.one()
    family = site.family()
    declare(site, "longer context", context=16_384, adapters=adapters)
    with timed("vLLM: surge to another context"), Following(site, STREAM) as client:
        change = site.start("apply", "--auto-approve")
        for _ in running(change, 0.2):
            complete(client.addresses[0])
        out, err = change.communicate()
    assert change.returncode == 0, out + err
    after = site.one()
    assert after["id"] != before["id"]
    assert [each.trouble for each in client.streams if not each.complete] == []
    assert client.in_flight_at_withdrawal(before["address"]), "no stream was on its way when it was withdrawn"
    tell(f"vLLM: {len(client.streams)} streams of {STREAM} tokens during the surge, all complete")
    gone(family, 5)
    complete(after["address"])


def kill_the_core(site: RealSite) -> None:
    """The API server ends by itself then, with exit status 0."""
    before, family = site.one(), site.family()
    (core,) = [each for each in family if "EngineCore" in each.name()]
    core.send_signal(SIGKILL)
    with timed("vLLM: kill -9 of the engine core until nothing of it is left"):
        gone(family, 30)
    with timed("vLLM: repaired by apply"):
        site.apply()
    after = site.one()
    assert (after["id"], after["state"]) == (before["id"], "ready")
    assert after["pid"] != before["pid"]
    complete(after["address"])


def kill_the_server(site: RealSite) -> None:
    """Its engine and workers live on then, and hold the memory: the agent ends them; `run` is what repairs."""
    before, family = site.one(), site.family()
    with interrupting(site.start("run")):
        psutil.Process(before["pid"]).send_signal(SIGKILL)
        with timed("vLLM: kill -9 of the API server until nothing of it is left"):
            gone(family, 30)
        with timed("vLLM: repaired by run"):
            wait_until(lambda: _serves_anew(site, before["pid"]), STARTS_WITHIN, "run repairs it")
    complete(site.one()["address"])


def _serves_anew(site: RealSite, pid: int) -> bool:
    return any(each["routable"] and each["pid"] != pid for each in site.replicas())


def test_a_healthy_engine_that_dies_of_its_first_token_is_never_ready_and_a_start_can_be_stopped(
    site: RealSite,
) -> None:
    write_tiny_llama(site.root / "narrow", head_dim=8)
    declare(site, "heads its kernels do not take", weights="narrow")
    with timed("vLLM: apply until the engine that dies of its first token is given up"):
        change = site.start("apply", "--auto-approve")
        for _ in running(change):
            assert site.addresses() == []
        out, err = change.communicate()
    assert change.returncode == 1, out + err
    assert "head_dim=8" in out + err
    assert [(each["state"], each["routable"]) for each in site.replicas()] == [("failed", False)]

    declare(site, "heads it takes")
    with interrupting(site.start("apply", "--auto-approve")) as change:
        # From here until its engine process is up, vLLM swallows SIGTERM.
        wait_until(
            lambda: [each["stage"] for each in site.replicas()] == ["starting processes"], STARTS_WITHIN, "it starts"
        )
        family = site.family()
        change.kill()
    declare(site, "not at all", replicas=0)
    with timed("vLLM: apply that stops one in the middle of its start"):
        stop = site.start("apply", "--auto-approve")
        gone(family, Vllm().stop.kill_after.total_seconds() + 40)  # the rest is for `apply` to begin
        out, err = stop.communicate()
    assert stop.returncode == 0, out + err
    assert site.replicas() == []
