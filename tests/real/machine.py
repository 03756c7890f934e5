"""A user's machine as in `tests/e2e`, with the real engines that the environment names.

RECONCILER_VLLM_PYTHON: the Python of an environment with vLLM's CPU build. RECONCILER_LLAMA_SERVER: a llama-server.
Each program is found as a person's is, by its name on PATH; nothing else of its environment is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from typing_extensions import override

from tests.e2e.site import Site, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.engines.base import Launch

VLLM_PYTHON = os.environ.get("RECONCILER_VLLM_PYTHON")
LLAMA_SERVER = os.environ.get("RECONCILER_LLAMA_SERVER")
VLLM = Path(VLLM_PYTHON).absolute().parent / "vllm" if VLLM_PYTHON else None

STARTS_WITHIN = 480.0
"""Seconds: a vLLM on two cores takes 25 when nothing else runs, and four minutes where twenty others want to run."""

_BEGAN = time.monotonic()


def tell(text: str) -> None:
    """One line of the transcript, with the seconds since these tests began; `make test-real` shows them."""
    sys.stdout.write(f"{time.monotonic() - _BEGAN:7.1f} s  {text}\n")
    sys.stdout.flush()


@contextmanager
def timed(text: str) -> Iterator[None]:
    """A line of the transcript that says how long the block took."""
    began = time.monotonic()
    yield
    tell(f"{text}: {time.monotonic() - began:.1f} s")


@dataclass
class RealSite(Site):
    """One machine; `programs` by the names they get on its PATH."""

    programs: Mapping[str, Path] = field(default_factory=dict)
    patience: float = 2 * STARTS_WITHIN

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        places = self.root / "bin"
        places.mkdir(exist_ok=True)
        for name, program in self.programs.items():
            (places / name).symlink_to(program)
        others = [each for each in os.environ["PATH"].split(os.pathsep) if not _holds_engine(Path(each))]
        self.env["PATH"] = os.pathsep.join([str(places), *others])

    def one(self) -> dict[str, Any]:
        """The only replica."""
        (replica,) = self.replicas()
        return replica

    def family(self) -> list[psutil.Process]:
        """The engine's process and all below it."""
        first = psutil.Process(self.one()["pid"])
        return [first, *first.children(recursive=True)]

    def declare(self, text: str, message: str) -> None:
        """Commit this as the one model."""
        self.write("cluster/models/tiny.yaml", text)
        self.commit(message)


def running(process: subprocess.Popen[str], every: float = 1.0) -> Iterator[None]:
    """Until it ends, with so many seconds between two looks: they cost what the engine would like to have."""
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(every)
            return
        yield


def gone(family: list[psutil.Process], within: float) -> None:
    """None of them runs any more."""
    wait_until(lambda: not any(map(_lives, family)), within, "every process of the engine is gone")


def output(program: tuple[str, ...], launch: Launch, directory: Path, within: float) -> str:
    """What a start that ends by itself prints: for ends that an agent avoids, such as a port in use."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [*program, *launch.arguments],
        cwd=directory,
        env=inherited | dict(launch.env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=within,
        check=False,
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _holds_engine(directory: Path) -> bool:
    return any((directory / name).exists() for name in ("vllm", "llama-server"))
