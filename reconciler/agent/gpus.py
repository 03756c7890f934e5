"""The GPUs of this node, measured now and then: by a program of its own, awaited by a thread, each with a deadline.

A hung driver holds up neither the event loop nor the agent's end; a crash of the driver's library ends the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from pydantic import ValidationError

from reconciler.agent.cards import Measurement
from reconciler.agent.inventory import Inventory, declared_gpus, inventory
from reconciler.engines.signals import signal_name
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reconciler.agent.config import AgentConfig

_log = logging.getLogger(__name__)

EVERY = 30.0
"""Seconds between measurements while nothing asks for one: a tenth of a second of a core each."""

WAITED_FOR = 5.0
"""Seconds that anybody waits for a measurement: without its persistence mode a driver wakes each card first, which
takes a second or so; what comes later is seen later."""

GIVEN_UP_AFTER = 60.0
"""Seconds after which the program that measures is killed: no driver was seen to take as long and to answer then."""

VARIABLE = "RECONCILER_GPUS"
"""`declared` in the agent's environment: no driver is asked, for drills on a machine that has GPUs of its own."""

_LIBRARY = "libnvidia-ml.so.1"
_SYSFS = Path("/sys")
_LINKER_CACHE = Path("/etc/ld.so.cache")
"""Holds the path of every library that the dynamic linker knows; some 100 kB. Not on musl."""

_USUAL = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
_OF_THE_KERNEL = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""NVIDIA's kernel module, on the machine and in a container; WSL's stand-in for it."""


class Gpus(Protocol):
    """Where a node's GPUs come from."""

    def seen(self) -> Inventory:
        """As of the last look; never waits."""
        ...

    async def look(self) -> None:
        """Look again now, for at most `WAITED_FOR`."""
        ...


class DeclaredGpus:
    """GPUs that nothing measures."""

    def __init__(self, config: AgentConfig) -> None:
        self._inventory = Inventory(declared_gpus(config))

    def seen(self) -> Inventory:
        """As declared."""
        return self._inventory

    async def look(self) -> None:
        """There is nothing to look at."""


class MeasuredGpus:
    """GPUs as `measure` finds them, at most one measurement at a time. Used from one event loop."""

    def __init__(self, config: AgentConfig, measure: Callable[[], Measurement]) -> None:
        self._config = config
        self._measure = measure
        self._inventory = Inventory(declared_gpus(config))
        self._under_way: anyio.Event | None = None

    def seen(self) -> Inventory:
        """As of the last measurement that ended; as declared before the first."""
        return self._inventory

    async def look(self) -> None:
        """Measure, or wait for the measurement that is under way; the cards do not answer if it takes too long."""
        if self._under_way is None:
            self._begin()
        if self._under_way is None:
            return
        with anyio.move_on_after(WAITED_FOR) as scope:
            await self._under_way.wait()
        if scope.cancelled_caught:
            self._take(Measurement(problem=f"the driver has not answered for {WAITED_FOR:.0f} s"))

    def _begin(self) -> None:
        self._under_way = anyio.Event()
        loop = asyncio.get_running_loop()
        try:
            threading.Thread(target=self._run, args=(loop,), name="GPU measurement", daemon=True).start()
        except RuntimeError:  # no more threads for this user; there may be some next time
            self._end(Measurement(problem="no thread can be started to ask the driver"))

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Whatever happens, this measurement ends: the next one waits for that. What did is for agent.log."""
        found = Measurement(problem="the measurement failed; agent.log says how")
        try:
            found = self._measure()
        finally:
            with contextlib.suppress(RuntimeError):  # the agent has ended meanwhile
                loop.call_soon_threadsafe(self._end, found)

    def _end(self, found: Measurement) -> None:
        event, self._under_way = self._under_way, None
        try:
            self._take(found)
        finally:
            if event is not None:
                event.set()

    def _take(self, found: Measurement) -> None:
        before, self._inventory = self._inventory, inventory(self._config, found, self._inventory)
        for problem in self._inventory.problems:
            if problem not in before.problems:
                _log.warning("%s", problem)


async def watch(gpus: Gpus) -> None:
    """Look for ever."""
    while True:
        await gpus.look()
        await anyio.sleep(EVERY)


def gpus_of(config: AgentConfig, environment: Mapping[str, str]) -> DeclaredGpus | MeasuredGpus:
    """Measured, unless the environment says that the declared ones hold."""
    asked = environment.get(VARIABLE, "")
    if asked not in {"", "declared"}:
        raise UsageError(f"{VARIABLE} is {asked!r}", hint=f"write {VARIABLE}=declared, or leave it out to measure")
    return DeclaredGpus(config) if asked else MeasuredGpus(config, lambda: measure(environment))


def look_once(config: AgentConfig, environment: Mapping[str, str]) -> Inventory:
    """The same without an event loop and without an agent: measured once, for at most `WAITED_FOR`."""
    if isinstance(gpus_of(config, environment), DeclaredGpus):
        return Inventory(declared_gpus(config))
    found: list[Measurement] = []
    thread = threading.Thread(target=lambda: found.append(measure(environment)), daemon=True)
    thread.start()
    thread.join(WAITED_FOR)
    late = Measurement(problem=f"the driver has not answered for {WAITED_FOR:.0f} s")
    return inventory(config, found[0] if found else late, Inventory())


def measure(environment: Mapping[str, str], sysfs: Path = _SYSFS) -> Measurement:
    """Ask every driver, in a process of its own. Blocks for at most `GIVEN_UP_AFTER`, and as the kernel pleases."""
    if not may_have_driver(environment, sysfs):
        return Measurement(absent=True)
    command = [sys.executable, "-m", "reconciler.agent.gpu_report", str(sysfs)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment),
            timeout=GIVEN_UP_AFTER,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Measurement(problem=f"the driver has not answered for {GIVEN_UP_AFTER:.0f} s")
    except OSError as error:
        return Measurement(problem=f"the program that measures GPUs cannot be started: {error.strerror}")
    if done.returncode != 0:
        return Measurement(problem=_why(done.returncode, done.stderr))
    try:
        return Measurement.model_validate_json(done.stdout)
    except ValidationError as error:
        return Measurement(problem=f"the driver told what cannot be: {error.errors(include_input=False)[0]['msg']}")


def may_have_driver(environment: Mapping[str, str], sysfs: Path = _SYSFS) -> bool:
    """Whether a driver's library or its kernel part lies on this node: where none does, nothing is measured at all.

    Nothing is loaded: a library may crash or hang whoever loads it, and that is for the program that measures. Where
    this errs it costs that program's tenth of a second, which then says that there is no driver.
    """
    if (sysfs / "class/kfd/kfd/topology/nodes").is_dir() or any(map(os.path.exists, _OF_THE_KERNEL)):
        return True
    folders = [*filter(None, re.split("[:;]", environment.get("LD_LIBRARY_PATH", ""))), *_USUAL]
    if any(os.path.exists(f"{folder}/{_LIBRARY}") for folder in folders):  # noqa: PTH110  # Path's raises where it may not look
        return True
    try:
        return f"/{_LIBRARY}\0".encode() in _LINKER_CACHE.read_bytes()
    except OSError:
        return False


def _why(code: int, stderr: bytes) -> str:
    if code < 0:
        return f"asking the driver crashed with {signal_name(-code)}"
    last = stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"asking the driver failed: {last[0] if last else f'exit code {code}'}"
