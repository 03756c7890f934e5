"""Ranks of one replica on two hosts with names, addresses and memory of their own, and a cable between them.

The hosts are network namespaces, which root alone can make. What agents do is in `tests/e2e/test_mpi_nodes.py`: here
are the launch's own words, the real Open MPI of the wheel and of the machine, and a cable that is pulled.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.engines.registry import support
from tests.e2e.site import wait_until
from tests.e2e.test_mpi_nodes import LIBRARY, STAND_IN, SYSTEM, WHEEL
from tests.engines import conformance
from tests.real.machine import timed

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="hosts are made by root, with iproute2"),
]

ADDRESSES = ("10.77.0.1", "10.77.0.2")
PORT = 20_000


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Hosts:
    """Two hosts, and on each its part of one replica with two GPUs a node."""

    def __init__(self, root: Path, programs: Path) -> None:
        self.root, self.programs = root, programs
        self.names = tuple(f"reconciler-{os.getpid()}-{place}" for place in "ab")
        self.parts: list[subprocess.Popen[bytes]] = []
        for name in self.names:
            ip("netns", "add", name)
        ends = [f"r{os.getpid()}{place}" for place in "ab"]
        ip("link", "add", ends[0], "netns", self.names[0], "type", "veth", "peer", ends[1], "netns", self.names[1])
        self.ends = ends
        for name, end, address in zip(self.names, ends, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            for device in (end, "lo"):
                ip("-n", name, "link", "set", device, "up")
        wrapper = root / "trtllm-llmapi-launch"
        wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
        for name in ("mpirun", "orted", "prted"):
            if (programs / name).exists():
                (root / name).symlink_to(programs / name)

    def begin(self, rank: int) -> None:
        """Start this host's part as its agent would."""
        engine = support(Engine.TRTLLM)
        assert engine is not None
        declaration = conformance.a_declaration(Engine.TRTLLM, gpus=2, nodes=2)
        site = conformance.a_site(
            declaration,
            host=ADDRESSES[rank],
            port=PORT,
            addresses=ADDRESSES,
            rank=rank,
            command=(str(self.root / "trtllm-serve"),),
            interpreter=sys.executable,
        )
        launch = engine.launch(declaration, site)
        path = {
            "PATH": f"{self.root}:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HOME": str(self.root),  # Open MPI 5 ends without one
        }
        library = {"MPI4PY_LIBMPI": LIBRARY} if self.programs == SYSTEM else {}
        inside = [
            "ip",
            "netns",
            "exec",
            self.names[rank],
            "unshare",
            "--uts",
            "sh",
            "-c",
            f'hostname host-{rank}; exec "$@"',
        ]
        with self.log(rank).open("wb") as log:
            words = [*inside, "-", *launch.launcher, *site.command, *launch.arguments]
            process = subprocess.Popen(
                words, env={**path, **library, **launch.env}, stdout=log, stderr=log, start_new_session=True
            )
        self.parts.append(process)

    def log(self, rank: int) -> Path:
        return self.root / f"{rank}.log"

    def ranks(self) -> list[dict[str, Any]]:
        """What each rank says of itself, asked on the first host; nothing while it does not answer."""
        asked = ["ip", "netns", "exec", self.names[0], "curl", "-s", "-m", "5", "-d", "{}"]
        url = f"http://{ADDRESSES[0]}:{PORT}/v1/completions"
        answer = subprocess.run([*asked, url], capture_output=True, check=False).stdout
        said: list[dict[str, Any]] = json.loads(json.loads(answer)["choices"][0]["text"]) if answer else []
        return said

    def pull(self) -> None:
        """The cable."""
        ip("-n", self.names[1], "link", "set", self.ends[1], "down")

    def clear(self) -> None:
        for part in self.parts:
            subprocess.run(["pkill", "-9", "-s", str(part.pid)], check=False)
            part.wait()
        for name in self.names:
            ip("netns", "del", name)


@pytest.fixture(params=["wheel", "system"])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hosts]:
    programs = WHEEL if request.param == "wheel" else SYSTEM
    if not (programs / "mpirun").exists():
        pytest.skip(f"no mpirun in {programs}")
    made = Hosts(tmp_path, programs)
    yield made
    made.clear()
    for rank in (0, 1):
        print(made.log(rank).read_text("utf-8")[-2000:])  # noqa: T201  # shown where the test failed


def test_ranks_meet_across_hosts_and_both_sides_notice_a_pulled_cable(hosts: Hosts) -> None:
    for rank in (0, 1):
        hosts.begin(rank)
    with timed(f"Open MPI in {hosts.programs.name}: two hosts until four ranks answer"):
        wait_until(lambda: bool(hosts.ranks()), 60, "it answers")
    said = hosts.ranks()
    assert [each["gpu"] for each in said] == ["GPU-3", "GPU-4", "GPU-3", "GPU-4"], "each host's own two"
    hosts.pull()
    with timed("a pulled cable until the first host's mpirun has ended"):
        hosts.parts[0].wait(90)
    assert f"the part on {ADDRESSES[1]} port {PORT + 1} is lost" in hosts.log(0).read_text("utf-8")
    with timed("and until the second host's part has"):
        hosts.parts[1].wait(90)
    assert "the first node has hung up" in hosts.log(1).read_text("utf-8")
