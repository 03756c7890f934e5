"""What the process table tells of a real engine's process: which GPUs it was started on, however it was told."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from reconciler.agent.processes import Running, running_engines
from tests.agent.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def described(logs: Path, environment: dict[str, str]) -> Running:
    """A process that leads its session and writes the log of a replica."""
    path = logs / "m-0@1a2b3c4d.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sleep", "60"], env=environment, stdout=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        wait_until(lambda: "m-0@1a2b3c4d" in running_engines(logs))
        (found,) = running_engines(logs)["m-0@1a2b3c4d"]
    finally:
        process.kill()
        process.wait()
    assert found.identity.pid == process.pid
    return found


@pytest.mark.parametrize(
    ("environment", "gpus", "numbers"),
    [
        ({"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}, ("GPU-b", "GPU-a"), ()),
        ({"CUDA_VISIBLE_DEVICES": "MIG-a"}, ("MIG-a",), ()),
        ({"CUDA_VISIBLE_DEVICES": "5,2"}, (), (5, 2)),  # vLLM before 0.24
        ({"ROCR_VISIBLE_DEVICES": "GPU-00c0ffee00000001"}, ("GPU-00c0ffee00000001",), ()),
        ({"HABANA_VISIBLE_MODULES": "0,1"}, (), (0, 1)),
        ({"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "", "HABANA_VISIBLE_MODULES": ""}, (), ()),
        ({}, (), ()),
    ],
)
def test_gpus_by_uuid_and_by_number(
    tmp_path: Path, environment: dict[str, str], gpus: tuple[str, ...], numbers: tuple[int, ...]
) -> None:
    found = described(tmp_path, environment)
    assert (found.gpus, found.gpu_numbers) == (gpus, numbers)
