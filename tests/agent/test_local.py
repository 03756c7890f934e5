"""`address: local`: started when it is needed, replaced when it differs, looked at when it is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

import psutil
import pytest

from reconciler.agent.config import AgentConfig
from reconciler.agent.journal import read_journal
from reconciler.agent.local import agent_running, ensure_agent, offline_observation, socket_path, stop_agent
from reconciler.domain.observed import ReplicaState
from reconciler.errors import AgentError
from tests.agent.entries import NODE, stop_entry
from tests.agent.machine import Machine, complete
from tests.agent.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Machine]:
    """A machine whose state directory has a path too long for a socket."""
    machine = Machine(tmp_path / ("d" * 120), tmp_path / "tiny.gguf")
    yield machine
    assert machine.clear() == []


def test_it_is_started_once_and_belongs_to_nobody(machine: Machine) -> None:
    assert not agent_running(machine.state)
    machine.ensure()
    agent = machine.agent
    machine.ensure()
    assert machine.agent.pid == agent.pid
    assert agent_running(machine.state)
    assert os.getsid(agent.pid) not in {os.getsid(0), agent.pid}, "no Ctrl-C and no terminal reaches it"
    assert agent.ppid() != os.getpid()
    assert agent.cwd() == "/"
    assert agent.terminal() is None


def test_two_who_need_it_at_once_get_one(machine: Machine) -> None:
    callers = [threading.Thread(target=machine.ensure) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    wait_until(lambda: len(machine.processes()) == 1)


def test_another_inventory_replaces_the_agent_and_keeps_its_engines(machine: Machine) -> None:
    before, agent = machine.serve(), machine.agent.pid
    machine.config = machine.config.model_copy(update={"gpus": ("l4", "l4")})
    machine.ensure()
    assert machine.agent.pid != agent
    assert [each.gpu_class for each in machine.node().gpus] == ["l4", "l4"]
    assert (machine.one().pid, machine.one().state) == (before.pid, ReplicaState.READY)
    complete(before.address)


def test_an_agent_that_hangs_is_no_agent_to_wait_for_for_ever(machine: Machine) -> None:
    machine.ensure()
    machine.agent.suspend()
    try:
        assert agent_running(machine.state)
        assert machine.offline().name == NODE
    finally:
        machine.agent.resume()


def test_an_agent_that_cannot_start_says_why(machine: Machine) -> None:
    (machine.config.directory / "agent.sock").mkdir(parents=True)
    with pytest.raises(AgentError, match="cannot listen") as failed:
        machine.ensure()
    assert "agent.log" in (failed.value.hint or "")


def test_a_state_directory_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state = tmp_path / "file" / "state"
    config = AgentConfig(node=NODE, listen="unix:/nowhere", state_dir=state)
    with pytest.raises(AgentError, match="cannot be written"):
        ensure_agent(state, config)


def test_a_socket_path_that_is_too_long_becomes_a_short_private_one(
    deep: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = socket_path(deep.state)
    assert len(str(path)) <= 100
    deep.ensure()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_uid == os.getuid()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere/else")
    assert socket_path(deep.state) == path, "another shell finds the same agent"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert deep.node().name == NODE


def test_the_usual_socket_lies_in_the_state_directory(tmp_path: Path) -> None:
    assert socket_path(Path("/var/lib/reconciler")) == Path("/var/lib/reconciler/agent/agent.sock")
    assert socket_path(Path("state")).is_absolute()
    assert not list(tmp_path.iterdir())


# Without an agent


def test_an_empty_or_missing_state_directory_is_a_node_without_replicas(tmp_path: Path) -> None:
    config = AgentConfig(node=NODE, listen="unix:/nowhere", state_dir=tmp_path / "none", gpus=("l4",))
    node = offline_observation(tmp_path / "none", config)
    assert (node.name, node.agent, node.replicas, node.revision) == (NODE, False, (), 0)
    assert [each.gpu_class for each in node.gpus] == ["l4"]
    assert not (tmp_path / "none").exists(), "looking makes nothing"
    assert offline_observation(tmp_path, config).replicas == ()
    assert not agent_running(tmp_path / "none")


def test_looking_without_an_agent_shows_what_lives_and_what_died(machine: Machine) -> None:
    seen = machine.serve()
    revision = machine.node().revision
    stop_agent(machine.state, engines=False)
    alive = machine.offline()
    assert not alive.agent
    assert alive.revision > revision
    assert (alive.replicas[0].state, alive.replicas[0].routable) == (ReplicaState.READY, True)
    assert (alive.replicas[0].address, alive.replicas[0].pid) == (seen.address, seen.pid)
    assert seen.pid is not None
    psutil.Process(seen.pid).send_signal(SIGKILL)
    wait_until(lambda: not machine.processes())
    dead = machine.offline().replicas[0]
    assert (dead.state, dead.routable, dead.ever_ready) == (ReplicaState.FAILED, False, True)
    assert (dead.pid, dead.address, dead.failures_in_a_row) == (None, None, 1)
    assert dead.failure
    assert machine.offline().revision == alive.revision
    assert machine.processes() == [], "looking starts nothing"


def test_a_stop_that_ended_unwatched_is_not_shown(machine: Machine) -> None:
    seen = machine.serve()
    assert seen.pid is not None
    machine.send(stop_entry(seen.entry, withdraw=60))
    machine.kill_agent()
    assert machine.offline().replicas[0].state is ReplicaState.DRAINING
    psutil.Process(seen.pid).send_signal(SIGKILL)
    wait_until(lambda: machine.offline().replicas == ())


# Stopping it


def test_stopping_the_agent_leaves_its_engines(machine: Machine) -> None:
    seen = machine.serve()
    agent = machine.agent.pid
    assert stop_agent(machine.state, engines=False) == [f"agent stopped (pid {agent})"]
    assert not socket_path(machine.state).exists()
    complete(seen.address)
    assert stop_agent(machine.state, engines=False) == ["no agent was running"]


@pytest.mark.parametrize("agent", ["runs", "was killed"])
def test_stopping_with_engines_leaves_nothing_and_nothing_comes_back(machine: Machine, agent: str) -> None:
    seen = machine.serve()
    if agent == "was killed":
        machine.kill_agent()
    said = stop_agent(machine.state, engines=True)
    assert any(seen.id in line and f"pid {seen.pid}" in line for line in said), said
    assert machine.processes() == []
    assert machine.offline().replicas == ()
    assert stop_agent(machine.state, engines=True) == ["no agent was running", "no engine was running"]
    machine.ensure()
    assert machine.node().replicas == ()
    assert [each.pid for each in machine.processes()] == [machine.agent.pid]
    assert machine.node().epoch == machine.epoch, "epochs go on"


def test_an_engine_that_no_record_knows_is_stopped_too(machine: Machine) -> None:
    machine.serve()
    machine.kill_agent()
    for path in (machine.config.directory / "node.json", *machine.config.directory.glob("replicas/*.json")):
        path.write_text("{")
    node = machine.offline()
    assert node.replicas == ()
    assert len(node.foreign) == 1, "it is not taken for gone"
    machine.ensure()
    assert len(machine.node().foreign) == 1
    stop_agent(machine.state, engines=True)
    assert machine.processes() == []


def test_stopping_where_nothing_ever_ran_makes_nothing(tmp_path: Path) -> None:
    assert stop_agent(tmp_path / "none", engines=True) == ["no agent was running"]
    assert not (tmp_path / "none").exists()


def test_what_a_stop_began_is_finished_by_the_next_agent(machine: Machine) -> None:
    """The intent is on disk before the first signal: `agent stop --engines` may itself be killed."""
    seen = machine.serve()
    engine = psutil.Process(seen.pid)
    engine.suspend()  # it holds the stop up
    command = [sys.executable, "-m", "reconciler", "agent", "stop", "--engines"]
    stop = subprocess.Popen(command, env=os.environ | {"RECONCILER_STATE_DIR": str(machine.state)})
    wait_until(lambda: any(record.stop for record in read_journal(machine.config.directory).replicas.values()))
    stop.kill()
    stop.wait()
    engine.resume()
    machine.ensure()
    wait_until(lambda: machine.node().replicas == ())
    assert [each.pid for each in machine.processes()] == [machine.agent.pid], "nothing came back"
