"""A state directory that is deleted, torn or contended: no engine is lost, none runs twice, and everything can end."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from signal import SIGKILL
from typing import TYPE_CHECKING

import psutil
import pytest

from reconciler.agent.drivers.process import ProcessDriver
from reconciler.agent.local import agent_running, ensure_agent, stop_agent
from reconciler.agent.lock import STOPS_ENGINES, holding_lock, lock_holder, lock_path
from reconciler.agent.processes import lock_owners
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from reconciler.errors import AgentError
from tests.agent.machine import Machine, complete
from tests.agent.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reconciler.domain.observed import ObservedReplica

OTHER_NAME = """
import http.server, json, sys
class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = {"status": "ok", "data": [{"id": "somebody-else"}]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Answers).serve_forever()
"""
"""A server that takes llama-server's command line and serves under another name."""


def test_an_engine_with_another_models_name_fails_with_that_sentence(machine: Machine, tmp_path: Path) -> None:
    script = tmp_path / "llama-server.py"
    script.write_text(OTHER_NAME)
    machine.config = machine.config.model_copy(update={"engines": {Engine.LLAMACPP: (sys.executable, str(script))}})
    machine.ensure()
    machine.send(machine.entry(ready_timeout=2))
    failure = machine.reach(ReplicaState.FAILED).failure
    assert failure == "it answers, and not as this replica should: /v1/models lists somebody-else, not tiny"


# Deleted


def test_an_agent_whose_directory_is_deleted_ends_and_the_next_one_finds_its_engines(machine: Machine) -> None:
    before, agent = serve_two(machine), machine.agent
    shutil.rmtree(machine.state)
    wait_until(lambda: gone(agent), within=5)
    complete(before[0].address)
    node = machine.offline()
    assert sorted(each.pid for each in node.foreign) == sorted(each.pid or 0 for each in before), "not taken for gone"
    machine.ensure()
    machine.epoch = 0
    machine.send(*(each.entry for each in before))
    wait_until(lambda: all(each.state is ReplicaState.READY for each in machine.node().replicas))
    after = machine.node()
    assert [(each.id, each.pid, each.address) for each in after.replicas] == [
        (each.id, each.pid, each.address) for each in before
    ]
    assert after.foreign == ()
    assert len(machine.processes()) == 3, "one agent, two engines"


def test_the_next_agent_does_not_wait_for_the_one_before(machine: Machine) -> None:
    (before, _), agent = serve_two(machine), machine.agent
    shutil.rmtree(machine.state)
    machine.ensure()
    assert gone(agent), "two agents over the same engines would each repair what the other does"
    assert len(agents(machine)) == 1
    complete(before.address)


def test_an_agent_whose_directory_was_made_anew_writes_nothing_into_it(machine: Machine) -> None:
    machine.serve()
    agent = machine.agent
    shutil.rmtree(machine.state)
    machine.config.directory.mkdir(parents=True)
    wait_until(lambda: gone(agent), within=5)
    assert list(machine.config.directory.iterdir()) == []


@pytest.mark.parametrize("anew", ["nothing is there", "another agent began", "the agent was killed"])
def test_stopping_finds_every_agent_and_engine_of_a_deleted_directory(machine: Machine, anew: str) -> None:
    before = serve_two(machine)
    if anew == "the agent was killed":
        machine.kill_agent()
    shutil.rmtree(machine.state)
    if anew == "another agent began":
        machine.config.directory.mkdir(parents=True)
        with holding_lock(machine.state, machine.config.listen):
            assert len(lock_owners(lock_path(machine.state))) == 2
            assert len(lock_owners(lock_path(machine.state), displaced=True)) == 1
    said = stop_agent(machine.state, engines=True)
    assert machine.processes() == []
    for each in before:
        assert any(f"pid {each.pid}" in line for line in said), said


# Torn


@pytest.mark.parametrize("how", ["removed", "torn"])
def test_looking_without_an_agent_asks_what_no_record_says_is_ready(machine: Machine, how: str) -> None:
    before = serve_two(machine)
    machine.kill_agent()
    for path in machine.config.directory.glob("replicas/*.json"):
        path.write_text("{") if how == "torn" else path.unlink()
    seen = machine.offline().replicas
    assert [(each.state, each.routable, each.ever_ready) for each in seen] == [(ReplicaState.READY, True, True)] * 2
    assert [(each.pid, each.address) for each in seen] == [(each.pid, each.address) for each in before]
    hung = psutil.Process(before[1].pid)
    hung.suspend()
    began = time.monotonic()
    first, second = machine.offline().replicas
    assert time.monotonic() - began < 2, "a look has a bound"
    hung.resume()
    assert (first.state, second.state, second.routable) == (ReplicaState.READY, ReplicaState.STARTING, False)
    machine.ensure()
    assert [each.state for each in machine.node().replicas] == [ReplicaState.READY] * 2, "in its first answer"
    assert [each.pid for each in machine.node().replicas] == [each.pid for each in before]


def test_a_double_is_shown_and_can_be_stopped(machine: Machine) -> None:
    before = machine.serve()
    machine.kill_agent()
    (log,) = machine.config.directory.glob("logs/*.log")
    words = psutil.Process(before.pid).cmdline()
    words[words.index("--port") + 1] = "0"
    with log.open("ab") as output:
        double = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True)
    machine.ensure()
    node = machine.node()
    assert [(each.pid, each.state) for each in node.replicas] == [(before.pid, ReplicaState.READY)]
    assert [each.pid for each in node.foreign] == [double.pid]
    reaper = threading.Thread(target=double.wait)  # its parent is this process: else it stays as a zombie
    reaper.start()
    stop_agent(machine.state, engines=True)
    reaper.join()
    assert machine.processes() == []


def test_what_was_lost_while_the_agent_runs_is_written_again(machine: Machine) -> None:
    machine.serve()
    files = [machine.config.directory / "node.json", *machine.config.directory.glob("replicas/*.json")]
    for path in files:
        path.unlink()
    wait_until(lambda: all(path.exists() for path in files), within=5)


def test_an_agent_whose_lock_file_says_nothing_can_be_stopped(machine: Machine) -> None:
    machine.ensure()
    agent = machine.agent
    lock_path(machine.state).write_bytes(b"xx")
    assert stop_agent(machine.state, engines=False) == [f"agent stopped (pid {agent.pid})"]


# Contended


def test_an_agent_that_is_stopped_in_the_middle_of_its_start_is_started_again(machine: Machine) -> None:
    stopped: list[int] = []

    def stop_the_first() -> None:
        wait_until(lambda: lock_holder(machine.state) is not None)
        holder = lock_holder(machine.state)
        assert holder is not None
        ProcessDriver().signal(holder.identity, SIGKILL)
        stopped.append(holder.identity.pid)

    beside(stop_the_first, machine.ensure)
    assert machine.agent.pid not in stopped
    assert len(agents(machine)) == 1


def test_stopping_an_agent_that_is_started_again_at_once_ends(machine: Machine) -> None:
    machine.ensure()
    first = machine.agent
    began, over = time.monotonic(), threading.Event()

    def keep_ensuring() -> None:
        while not over.is_set():
            machine.ensure()

    def stop() -> None:
        assert stop_agent(machine.state, engines=False) == [f"agent stopped (pid {first.pid})"]
        over.set()

    beside(keep_ensuring, stop)
    assert time.monotonic() - began < 9
    assert gone(first)


def test_whoever_needs_an_agent_waits_for_those_who_stop_the_engines(machine: Machine) -> None:
    machine.config.directory.mkdir(parents=True)
    with holding_lock(machine.state, STOPS_ENGINES):
        assert agent_running(machine.state)
        caller = threading.Thread(target=ensure_agent, args=(machine.state, machine.config))
        caller.start()
        caller.join(1)
        assert caller.is_alive()
        assert agents(machine) == []
    caller.join()
    assert len(agents(machine)) == 1


def test_an_agent_whose_socket_was_removed_is_replaced(machine: Machine) -> None:
    before, agent = machine.serve(), machine.agent
    (machine.config.directory / "agent.sock").unlink()
    machine.ensure()
    assert gone(agent)
    assert (machine.one().pid, machine.one().state) == (before.pid, ReplicaState.READY)


def test_an_agent_that_hangs_is_named(machine: Machine) -> None:
    machine.ensure()
    agent = machine.agent
    agent.suspend()
    try:
        with pytest.raises(AgentError, match=rf"the agent \(pid {agent.pid}\) runs and does not answer within 1 s"):
            ensure_agent(machine.state, machine.config, within=1)
    finally:
        agent.resume()


def serve_two(machine: Machine) -> tuple[ObservedReplica, ...]:
    machine.ensure()
    machine.send(machine.entry(0), machine.entry(1))
    wait_until(lambda: [each.state for each in machine.node().replicas] == [ReplicaState.READY] * 2)
    return machine.node().replicas


def gone(process: psutil.Process) -> bool:
    """A zombie is: who takes it away differs between machines."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def agents(machine: Machine) -> list[psutil.Process]:
    return [each for each in machine.processes() if "agent" in each.cmdline()]


def beside(first: Callable[[], None], second: Callable[[], None]) -> None:
    """Both at the same time, until both are done."""
    thread = threading.Thread(target=first)
    thread.start()
    second()
    thread.join()
