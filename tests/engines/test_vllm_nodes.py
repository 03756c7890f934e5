"""Data-parallel ranks of one vLLM on two nodes: both processes on this machine's CPUs, with the module's command lines.

For the Python in RECONCILER_VLLM_PYTHON; two minutes. Ranks that share matrices run through agents in `tests/real`.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

import httpx
import pytest

from reconciler.domain.declaration import Declaration
from reconciler.engines.base import Answer, Health, InFlight, Site
from reconciler.engines.vllm import Vllm
from tests.agent.engine_process import free_port, wait_until
from tests.tiny_llama import write_tiny_llama

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciler.engines.base import Launch

PYTHON = os.environ.get("RECONCILER_VLLM_PYTHON")
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(PYTHON is None, reason="RECONCILER_VLLM_PYTHON names no Python with vLLM"),
]

HERE = "127.0.0.1"


@contextmanager
def running(launches: Sequence[Launch], directory: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Each in a group of its own, killed whole at the end."""
    program = str(Path(PYTHON or "").parent / "vllm")
    inherited = {name: os.environ[name] for name in ("PATH", "HOME")}
    processes = []
    try:
        for rank, launch in enumerate(launches):
            with (directory / f"{rank}.log").open("wb") as log:
                command, env = [program, *launch.arguments], inherited | dict(launch.env)
                processes.append(
                    subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
                )
        yield processes
    finally:
        for process in processes:
            with suppress(ProcessLookupError):  # it is gone already
                os.killpg(process.pid, SIGKILL)
            process.wait()


def test_two_nodes_serve_as_one(tmp_path: Path) -> None:
    engine, weights, port = Vllm(), write_tiny_llama(tmp_path / "weights"), free_port()
    usual = {"model": "tiny", "engine": "vllm", "source": "file:/weights", "context": 1024, "memory_gib": 2.5}
    rest = {"cpu_cores": 1, "max_concurrency": 2, "nodes": 2, "data_parallel": 2, "args": ("--enforce-eager",)}
    declaration = Declaration.model_validate(usual | rest)
    launches = [
        engine.launch(declaration, Site(HERE, port, str(weights), addresses=(HERE, HERE), rank=rank)) for rank in (0, 1)
    ]
    client = httpx.Client(base_url=launches[0].url, trust_env=False, timeout=60)

    def healthy() -> bool:
        assert all(process.poll() is None for process in processes), (tmp_path / "0.log").read_text()[-4000:]
        try:
            return client.get("/health").status_code == 200
        except httpx.HTTPError:
            return False

    with running(launches, tmp_path) as processes, client:
        wait_until(healthy, "both nodes are up", 480)
        for probe in engine.readiness(declaration):
            answer = client.request(probe.method, probe.path, json=probe.body)
            verdict = engine.judge(declaration, probe, Answer(answer.status_code, answer.content))
            assert verdict.health is Health.OK, verdict
        assert engine.read_load(Answer(200, client.get("/metrics").content)) == InFlight(0, 0)
        processes[0].terminate()
        processes[0].wait(30)
        assert processes[1].poll() is None, "a node that only computes does not end with its leader"
        processes[1].terminate()
        processes[1].wait(engine.stop.kill_after.total_seconds())
