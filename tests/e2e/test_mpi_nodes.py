"""TensorRT-LLM over two nodes: two real agents, the real Open MPI between them, ranks that compute nothing.

The wheel's Open MPI (5), and the machine's own where there is one: its programs are what a GPU node has (4.1).
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from reconciler.domain.model_spec import Engine
from tests.e2e.pair import NAMES, Pair
from tests.e2e.site import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)

STAND_IN = Path(__file__).with_name("trtllm_stand_in.py")
WHEEL = Path(sys.executable).parent
SYSTEM = Path("/usr/bin")
LIBRARY = "/usr/lib/x86_64-linux-gnu/libmpi.so.40"
SECRET = "one-and-the-same"


@pytest.fixture(params=["wheel", "system"])
def programs(request: pytest.FixtureRequest) -> Path:
    """Where `mpirun` and its daemon are."""
    found = WHEEL if request.param == "wheel" else SYSTEM
    if not (found / "mpirun").exists():
        pytest.skip(f"no mpirun in {found}")
    return found


@pytest.fixture
def pair(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    own = tmp_path / "bin"
    own.mkdir()
    for name in ("mpirun", "orted", "prted"):
        if (programs / name).exists():
            (own / name).symlink_to(programs / name)
    for name, words in (("trtllm-serve", "false"), ("trtllm-llmapi-launch", f"{sys.executable} {STAND_IN}")):
        (own / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        (own / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:/usr/bin:/bin")
    made = Pair(tmp_path, Engine.TRTLLM, (str(own / "trtllm-serve"),), gpus=2)
    yield made
    assert made.clear() == [], "a process was left behind"


def further(programs: Path) -> str:
    """A key, and what this machine needs: its two nodes share one memory, where Open MPI 4.1 does not expect them."""
    key = "TRTLLM_MPI_KEY: {secret: ranks}"
    if programs == WHEEL:
        return f", env: {{{key}}}"
    return f", env: {{{key}, OMPI_MCA_btl: 'tcp,self', MPI4PY_LIBMPI: {LIBRARY}}}"


def give_key(pair: Pair, *names: str, key: str = SECRET) -> None:
    """Put the key into these nodes' secrets."""
    for name in names:
        secrets = pair.site.root / name / "agent" / "secrets"
        secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
        (secrets / "ranks").write_text(key, encoding="utf-8")


def ranks(pair: Pair) -> list[dict[str, Any]]:
    """What each rank says of itself, asked through the one that serves."""
    (address,) = set(pair.site.addresses())
    body = json.dumps({"model": "giant", "prompt": "a", "max_tokens": 1}).encode()
    request = urllib.request.Request(f"{address}/v1/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        said: list[dict[str, Any]] = json.loads(json.load(answer)["choices"][0]["text"])
    return said


def session(pid: int) -> int:
    return os.getsid(pid)


def test_each_nodes_ranks_are_its_own_agents_and_they_stand_and_fall_together(pair: Pair, programs: Path) -> None:
    give_key(pair, *NAMES)
    pair.model(further(programs))
    pair.site.apply()
    said = ranks(pair)
    assert [each["rank"] for each in said] == [0, 1, 2, 3]
    assert len({each["gpu"] for each in said}) == 4, "two GPUs of each node"
    sessions = [session(each["pid"]) for each in said]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]
    parents = {name: pair.agents[name].pid for name in NAMES}
    leaders = [psutil.Process(each).ppid() for each in (sessions[0], sessions[2])]
    assert leaders == [parents["gpu-01"], parents["gpu-02"]]
    assert [each["state"] for each in pair.parts()] == ["ready", "ready"]

    os.kill(said[3]["pid"], SIGKILL)
    gone = {each["pid"] for each in said}
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in gone), 60, "MPI has ended the other ranks")
    wait_until(pair.serves, 120, "the agents have launched both parts again, with no reconciler there")
    assert len({each["gpu"] for each in ranks(pair)}) == 4

    os.kill(session(ranks(pair)[0]["pid"]), SIGKILL)
    wait_until(lambda: not pair.serves(), 60, "the first node's mpirun is gone")
    wait_until(pair.serves, 120, "both serve again")

    pair.agents["gpu-02"].kill()
    pair.agents["gpu-02"].communicate()
    before = ranks(pair)
    pair.begin("gpu-02")
    wait_until(pair.serves, 30, "its part is adopted")
    assert ranks(pair) == before
    assert [each["action"] for each in pair.site.plan()["changes"]] == ["none"]
    pair.stop()


def test_a_key_that_differs_fails_the_first_node_with_the_reason(pair: Pair, programs: Path) -> None:
    give_key(pair, "gpu-01")
    give_key(pair, "gpu-02", key="another")
    pair.model(further(programs))
    told = pair.site.apply(code=1)
    assert "the secret behind it differs between the nodes" in told
    assert SECRET not in told
    pair.stop()
