"""A process driver without processes, and the programs by which it is held to the real one's contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from signal import SIGKILL, SIGTERM

import anyio

from reconciler.agent.drivers.base import Exit, ProcessIdentity, ProcessSpec, StartFailed
from tests.agent.entries import BOOT

LASTS = ("sleep", "60")
EXITS_3 = ("sh", "-c", "exit 3")
IGNORES_TERM = ("sh", "-c", "trap '' TERM; echo started; while :; do sleep 0.02; done")
LEAVES_A_CHILD = ("sh", "-c", "sleep 60 & echo started; exec sleep 60")
MISSING = ("/no/such/program",)


@dataclass(slots=True)
class FakeProcess:
    """One that was started."""

    identity: ProcessIdentity
    spec: ProcessSpec
    ignores_term: bool = False
    has_child: bool = False
    exit: Exit | None = None
    told: bool = False
    signals: list[int] = field(default_factory=list)
    """Sent to the leader."""
    gone: anyio.Event = field(default_factory=anyio.Event)

    def end(self, *, code: int | None = None, signal: int | None = None) -> None:
        """The leader ends by itself; a child of it lives on."""
        if self.exit is None:
            self.exit = Exit(code=code, signal=signal)
            self.gone.set()


class FakeDriver:
    """See `Driver`. What the next process is like is set before it is started."""

    def __init__(self, boot_id: str = BOOT) -> None:
        self.boot_id = boot_id
        self.processes: list[FakeProcess] = []
        self.ignores_term = False
        self.leaves_a_child = False
        self.is_missing = False

    @property
    def newest(self) -> FakeProcess:
        return self.processes[-1]

    async def start(self, spec: ProcessSpec) -> ProcessIdentity:
        if self.is_missing or spec.argv == MISSING:
            raise StartFailed(f"{spec.argv[0]} was not started: no such program")
        number = len(self.processes)
        identity = ProcessIdentity(pid=100 + number, started_at=float(number), boot_id=self.boot_id)
        process = FakeProcess(
            identity,
            spec,
            ignores_term=self.ignores_term or spec.argv == IGNORES_TERM,
            has_child=self.leaves_a_child or spec.argv == LEAVES_A_CHILD,
        )
        self.processes.append(process)
        if spec.argv in {LEAVES_A_CHILD, IGNORES_TERM}:
            spec.log_path.write_text("started\n", "utf-8")
        if spec.argv == EXITS_3:
            process.end(code=3)
        return identity

    def alive(self, identity: ProcessIdentity) -> bool:
        process = self._find(identity)
        return process is not None and process.exit is None

    async def wait(self, identity: ProcessIdentity) -> Exit:
        process = self._find(identity)
        if process is None:
            return Exit()
        await process.gone.wait()
        if process.told or process.exit is None:
            return Exit()
        process.told = True
        return process.exit

    def signal(self, identity: ProcessIdentity, number: int) -> None:
        process = self._find(identity)
        if process is None or process.exit is not None:
            return
        process.signals.append(number)
        if number == SIGKILL or (number == SIGTERM and not process.ignores_term):
            process.end(signal=number)

    def signal_group(self, identity: ProcessIdentity, number: int) -> None:
        self.signal(identity, number)
        process = self._find(identity)
        if process is not None and number == SIGKILL:
            process.has_child = False

    def group_alive(self, identity: ProcessIdentity) -> bool:
        process = self._find(identity)
        return process is not None and (process.exit is None or process.has_child)

    def _find(self, identity: ProcessIdentity) -> FakeProcess | None:
        if identity.boot_id != self.boot_id:
            return None
        return next((each for each in self.processes if each.identity == identity), None)
