"""Three real agents, each behind a door, with llama.cpp's own server and a tiny model; rollouts during which one dies.

One course is one rollout of three replicas: a commit, an `apply` during which something is killed at one of its calls,
the `apply` that finishes it, and a third one that finds nothing to do. What runs at its end is where the next begins.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from reconciler.agent.config import AgentConfig, agent_directory
from tests.e2e.door import Call, CrashPoint, Door, Moment, Toll
from tests.e2e.serving import Watch, engine_processes, observation
from tests.e2e.site import Site, ask, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

POOL = """pool: here
memory_gib: {memory}
cpu_cores: 64
nodes:
{nodes}"""
"""More cores than there are, so that none are dealt out: the engines of the three agents would get the same ones."""

NAMES = ("n1", "n2", "n3")
REPLICAS = 3
ROOM_GIB = {"surge": 2, "in_place": 1}
"""Of each node: for one replica more, or for none."""

FEWEST = {"surge": REPLICAS, "in_place": REPLICAS - 1}
"""Replicas that serve at the worst instant of a rollout: so many at least by the policy; if more, nobody looked."""
MOST = {"surge": REPLICAS + 1, "in_place": REPLICAS}
"""Engine processes at once, likewise."""
BESIDE_UNKNOWN = 1
"""What a silent node holds does not count against max_surge (`planning.counting`): it may have one more beside it."""

AGENT_UP = 60.0
"""Seconds for an agent to answer; on a machine that is loaded Python alone takes some of them."""

PATIENCE = 300.0
"""Seconds for an apply, which takes seven on two cores that are idle."""


@dataclass
class Told:
    """What became of one course."""

    calls: list[Call]
    """Up to the one at which something died."""
    struck: Call | None
    """That one; None when there were not that many."""
    first: int
    """How the first apply ended."""
    arrivals: list[int] = field(default_factory=list)
    """Statuses of what was still under way."""


class ThreeNodes:
    """A fleet of three nodes on this machine."""

    def __init__(self, root: Path, strategy: str) -> None:
        self.strategy = strategy
        self.site = Site(root / "m", patience=PATIENCE)
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.doors: dict[str, Door] = {}
        self._context = 256
        listed = "".join(f"  - {{name: {name}, address: 'unix:{self._socket(name)}'}}\n" for name in NAMES)
        self.site.write("cluster/nodes/here.yaml", POOL.format(memory=ROOM_GIB[strategy], nodes=listed))
        for name in NAMES:
            config = AgentConfig(
                node=name,
                listen=f"unix:{self._socket(name, behind=True)}",
                state_dir=self.site.root / name,
                memory_gib=ROOM_GIB[strategy],
                cpu_cores=64,
            )
            self.site.write(f"{name}.json", config.model_dump_json())

    def begin(self) -> None:
        """Start the agents, and three replicas."""
        for name in NAMES:
            self._start_agent(name)
        for name in NAMES:
            self._await_agent(name)
            self.doors[name] = Door(name, self._socket(name), self._socket(name, behind=True))
        self._declare()
        self.site.apply()
        self._check_end(set())

    def course(self, point: CrashPoint | None, *, dies: str = "reconciler") -> Told:
        """One rollout, with all that must hold of it; `dies` is `reconciler` or `agent`."""
        try:
            return self._course(point, dies)
        except AssertionError as error:
            error.add_note(f"{self.strategy}: the {dies} died at {point}")
            raise

    def _course(self, point: CrashPoint | None, dies: str) -> Told:
        before = {pid for pid, _ in self._engines()}
        self._declare()
        toll = Toll(point)
        with Watch(str(self.site.weights), tuple(self.doors.values())) as watch:
            for door in self.doors.values():
                door.toll = toll
            first = self.site.start("apply", "--auto-approve")
            toll.kill = self._kill_agent if dies == "agent" else lambda _: _end(first)
            out, err = first.communicate(timeout=self.site.patience)
            toll.armed = False
            wait_until(self._all_answer, AGENT_UP, "every agent answers")
            told = Told(toll.calls, toll.struck, first.returncode)
            try:
                if toll.struck is None:
                    assert first.returncode == 0, out + err
                elif dies == "reconciler":
                    # Of the last observations nobody waits for the answer: it may have ended before the signal.
                    may_end = toll.struck.kind == "observe"
                    assert first.returncode == -signal.SIGKILL or (may_end and first.returncode == 0), out + err
                else:
                    assert first.returncode in {0, 7}, out + err
                if told.first != 0:
                    self.site.apply()
                toll.deliver()
                assert "no changes" in self.site.apply()
            finally:
                for door in self.doors.values():
                    door.toll = Toll()
        told.arrivals = toll.arrivals
        if point is not None and toll.struck is not None and point.moment is Moment.FENCED and point.kind != "release":
            assert told.arrivals == [409], "an agent obeyed a dead reconciler although the next one held the claim"
        fewest, most = watch.fewest(), watch.most
        assert fewest == FEWEST[self.strategy], f"{fewest} served at the worst instant"
        more = BESIDE_UNKNOWN if dies == "agent" and self.strategy == "surge" else 0
        assert MOST[self.strategy] <= most <= MOST[self.strategy] + more, f"{most} engines at once"
        self._check_end(before)
        assert len(watch.engines) == 2 * REPLICAS, "something was started twice"
        return told

    def end(self) -> None:
        """Stop the engines by way of the tree, and then the agents."""
        self.site.model(replicas=0)
        self.site.commit("nothing")
        self.site.apply()
        assert self._engines() == []

    def clear(self) -> None:
        """End the agents and whatever is left of engines: nothing where `end` went well."""
        for door in self.doors.values():
            door.close()
        for agent in self.agents.values():
            agent.terminate()
            agent.wait(timeout=60)
        for each in self.site.processes():
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def _declare(self) -> None:
        """Commit the model with the other of its two contexts."""
        self._context = 768 - self._context
        self.site.model(context=self._context, replicas=REPLICAS, strategy=self.strategy)
        self.site.commit(f"a context of {self._context}")

    def _check_end(self, before: set[int]) -> None:
        """As declared, and nothing of what was before: no process, no port, no record, no claim."""
        seen = [observation(door) for door in self.doors.values()]
        replicas = [replica for node in filter(None, seen) for replica in node["replicas"]]
        got = sorted((_text(each), each["state"], each["routable"]) for each in replicas)
        assert got == [(f"tiny/{ordinal} {self._context}", "ready", True) for ordinal in range(REPLICAS)]
        for each in replicas:
            ask(each["address"])
        engines = dict(self._engines())
        assert sorted(engines) == sorted(each["pid"] for each in replicas), "an engine without a replica"
        assert before.isdisjoint(engines), "an engine that was to be replaced"
        processes = self.site.processes()
        assert {each.pid for each in processes} == {*engines, *(each.pid for each in self.agents.values())}, "an orphan"
        assert set(_ports(processes)) == set(engines.values()), "a port that nobody needs"
        records = [path.stem for name in NAMES for path in self._journal(name).glob("replicas/*.json")]
        assert sorted(records) == sorted(each["entry"]["id"].replace("/", "-") for each in replicas)
        claims = [json.loads((self._journal(name) / "node.json").read_text())["claim"] for name in NAMES]
        holders = [claim["holder"]["pid"] for claim in claims if claim is not None]
        assert not any(map(psutil.pid_exists, holders)), "a claim of one that lives"

    def _engines(self) -> list[tuple[int, int]]:
        return list(engine_processes(str(self.site.weights).encode()))

    def _journal(self, name: str) -> Path:
        return agent_directory(self.site.root / name)

    def _socket(self, name: str, *, behind: bool = False) -> Path:
        return self.site.root / f"{name}.{'agent' if behind else 'door'}"

    def _start_agent(self, name: str) -> None:
        """Its words go to a file: a pipe that nobody reads would stop it one day."""
        with (self.site.root / f"{name}.log").open("a") as log:
            self.agents[name] = subprocess.Popen(
                [sys.executable, "-m", "reconciler", "agent", "--config", str(self.site.root / f"{name}.json")],
                cwd=self.site.root,
                env=self.site.env | {"PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _await_agent(self, name: str) -> None:
        wait_until(lambda: _listens(self._socket(name, behind=True)), AGENT_UP, f"the agent of {name} answers")

    def _all_answer(self) -> bool:
        """Whether each is reached through its door, and has taken over its engines."""
        if not all(_listens(door.here) for door in self.doors.values()):
            return False
        with suppress(OSError):
            return all(observation(door) is not None for door in self.doors.values())
        return False

    def _kill_agent(self, name: str) -> None:
        """It dies and is started again, as systemd does it; until it listens, connections are refused."""
        self.agents[name].kill()
        self.agents[name].wait()
        self.doors[name].close()
        self._start_agent(name)
        self._await_agent(name)
        self.doors[name].open()


@contextmanager
def three_nodes(root: Path, strategy: str) -> Iterator[ThreeNodes]:
    """Three replicas on as many nodes; afterwards nothing of them is left."""
    made = ThreeNodes(root, strategy)
    try:
        made.begin()
        yield made
        made.end()
    finally:
        made.clear()


def every_point(calls: Sequence[Call], dies: str) -> list[CrashPoint]:
    """All crash points of a course that makes these calls.

    Of an observation there is one: its agent does nothing on it, and what is known at one moment of it and not at the
    other is known at that of the next. An agent that died has nothing under way.
    """
    kinds = [each.kind for each in calls]
    moments = [*Moment] if dies == "reconciler" else [Moment.BEFORE, Moment.AFTER]
    return [
        CrashPoint(kind, number, moment)
        for kind in ("assign", "claim", "release", "observe")
        for moment in (moments if kind != "observe" else [Moment.AFTER])
        for number in range(kinds.count(kind))
    ]


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def _ports(processes: Iterable[psutil.Process]) -> Iterator[int]:
    """Where any of them listens."""
    for process in processes:
        yield from (each.laddr.port for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN)


def _listens(path: Path) -> bool:
    with closing(socket.socket(socket.AF_UNIX)) as link:
        return link.connect_ex(str(path)) == 0


def _text(replica: dict[str, Any]) -> str:
    entry = replica["entry"]
    return f"{entry['model']}/{entry['ordinal']} {entry['declaration']['context']}"
