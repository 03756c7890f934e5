"""A replica from accepted to ready: what it waits for, what it is given, and how a start fails."""

from __future__ import annotations

import os
import pwd
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.domain.model_spec import Engine, SecretRef
from reconciler.domain.observed import ReplicaState
from tests.agent.bench import HEALTH, LOADING, OK, SILENT, TOKEN, WRONG, Bench
from tests.agent.disk import full_disk
from tests.agent.entries import run_entry, stop_entry

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_it_is_started_with_the_configured_command_in_an_own_log(bench: Bench) -> None:
    entry = run_entry()
    await bench.send(entry)
    spec = bench.driver.newest.spec
    seen = bench.one()
    assert spec.argv[:4] == ("scripted-server", "--quiet", "--model", "/weights/tiny.gguf")
    assert seen.address == f"http://127.0.0.1:{spec.argv[5]}"
    assert spec.log_path.name == f"tiny-0@{entry.id[-8:]}.log"
    assert (seen.state, seen.routable, seen.pid) == (ReplicaState.STARTING, False, 100)


async def test_it_is_ready_once_every_readiness_probe_is_answered_well(bench: Bench) -> None:
    await bench.send(run_entry())
    bench.prober.answers[HEALTH.path] = OK
    await bench.after(1)
    assert bench.one().state is ReplicaState.STARTING, "a health page is no token"
    bench.prober.answers[TOKEN.path] = OK
    await bench.after(1.5)
    seen = bench.one()
    assert (seen.state, seen.routable, seen.ever_ready) == (ReplicaState.READY, True, True)
    assert seen.load_seconds == 2.5
    assert [(each.model, each.seconds) for each in bench.node().load_times] == [("tiny", 2.5)]


async def test_stages_come_from_its_log_and_move_the_revision(bench: Bench) -> None:
    entry = run_entry()
    await bench.send(entry)
    before = bench.supervisor.revision
    bench.write_log(entry.id, "noise\nstage: loading weights\n")
    await bench.after(1)
    assert bench.one().stage == "loading weights"
    assert bench.supervisor.revision == before + 1
    await bench.after(1)
    assert bench.supervisor.revision == before + 1, "nothing new"


async def test_an_engine_that_says_it_loads_is_believed(bench: Bench) -> None:
    bench.prober.answers[HEALTH.path] = LOADING
    await bench.send(run_entry())
    assert bench.one().stage == "loading"


async def test_probes_back_off_from_a_fifth_of_a_second_to_two(bench: Bench) -> None:
    await bench.send(run_entry())
    replica = bench._replicas()[0]
    pauses = [await replica.step() or 0.0 for _ in range(12)]
    assert pauses[0] < 0.5
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0


async def test_only_a_small_part_of_the_agents_environment_reaches_it(bench: Bench) -> None:
    await bench.send(run_entry(env={"LEVEL": "info", "OURS": "loses"}))
    env = bench.driver.newest.spec.env
    assert env == {"PATH": "/bin", "HOME": "/home/ada", "LEVEL": "info", "OURS": "wins"}


async def test_an_agent_that_was_started_without_a_home_gives_its_users(bench: Bench) -> None:
    """As by systemd; Open MPI 5 ends without one."""
    del bench.environment["HOME"]
    await bench.send(run_entry())
    assert bench.driver.newest.spec.env["HOME"] == pwd.getpwuid(os.getuid()).pw_dir


async def test_a_secret_is_read_at_launch_and_written_nowhere(bench: Bench) -> None:
    bench.config.secrets.mkdir(parents=True)
    (bench.config.secrets / "hub-token").write_text("s3cr3t-value\n")
    entry = run_entry(env={"HF_TOKEN": SecretRef(secret="hub-token")})
    await bench.send(entry)
    assert bench.driver.newest.spec.env["HF_TOKEN"] == "s3cr3t-value"
    bench.write_log(entry.id, "failure: 401 for token s3cr3t-value\n")
    bench.driver.newest.end(code=1)
    await bench.settle()
    assert bench.one().failure == "401 for token [secret hub-token]"
    files = (path for path in bench.directory.rglob("*.json*") if path.is_file())
    assert not any("s3cr3t-value" in path.read_text() for path in files)
    assert "s3cr3t-value" not in bench.node().model_dump_json()


async def test_a_missing_secret_is_named_and_nothing_is_started(bench: Bench) -> None:
    await bench.send(run_entry(env={"HF_TOKEN": SecretRef(secret="hub-token")}))
    failure = bench.one().failure or ""
    assert "secret hub-token cannot be read" in failure
    assert str(bench.config.secrets / "hub-token") in failure
    assert bench.driver.processes == []


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (run_entry(engine=Engine.VLLM), "cannot run vllm"),
        (run_entry(node="there"), "placed on there"),
        (run_entry(source="file:/weights/none.gguf"), "no such file"),
    ],
)
async def test_what_cannot_be_started_fails_with_one_sentence(bench: Bench, entry: object, words: str) -> None:
    bench.missing.add("file:/weights/none.gguf")
    await bench.send(entry)  # type: ignore[arg-type]  # each is a run entry
    seen = bench.one()
    assert seen.state is ReplicaState.FAILED
    assert words in (seen.failure or "")
    assert bench.driver.processes == []


async def test_an_engine_the_config_does_not_list_is_never_started(bench: Bench) -> None:
    bench.config = bench.config.model_copy(update={"engines": {}})
    bench.restart()
    await bench.send(run_entry())
    assert "pip install scripted" in (bench.one().failure or "")
    assert bench.node().engines == ()


async def test_a_program_that_cannot_be_executed_fails(bench: Bench) -> None:
    bench.driver.is_missing = True
    await bench.send(run_entry())
    assert bench.one().failure == "scripted-server was not started: no such program"


async def test_what_never_became_ready_is_left_failed_until_a_higher_attempt(bench: Bench) -> None:
    await bench.send(run_entry())
    bench.driver.newest.end(code=1)
    await bench.settle()
    seen = bench.one()
    assert (seen.state, seen.failure, seen.ever_ready) == (ReplicaState.FAILED, "exited with code 1", False)
    await bench.after(86_400)
    assert bench.one().state is ReplicaState.FAILED
    await bench.send(run_entry())
    assert len(bench.driver.processes) == 1
    await bench.send(run_entry(attempt=1, retry="r-1"))
    assert bench.one().state is ReplicaState.STARTING
    assert bench.one().id == run_entry().id
    assert len(bench.driver.processes) == 2


async def test_without_progress_for_its_ready_timeout_it_is_killed(bench: Bench) -> None:
    entry = run_entry(ready_timeout=60)
    await bench.send(entry)
    await bench.after(59)
    bench.write_log(entry.id, "stage: loading weights\n")
    await bench.settle()
    await bench.after(59)
    assert bench.one().state is ReplicaState.STARTING, "a new stage is progress"
    bench.write_log(entry.id, "stage: loading weights\n")
    await bench.after(1)
    seen = bench.one()
    assert seen.state is ReplicaState.FAILED
    assert seen.failure == "not ready, and no progress for 60 s (loading weights)"
    assert not bench.driver.group_alive(bench.driver.newest.identity)


async def test_each_step_within_a_stage_is_progress_and_no_transition(bench: Bench) -> None:
    entry = run_entry(ready_timeout=60)
    await bench.send(entry)
    bench.write_log(entry.id, "stage: loading weights\n")
    await bench.settle()
    revision = bench.supervisor.revision
    for shard in (1, 2, 3):
        await bench.after(50)
        bench.write_log(entry.id, f"stage: loading weights, {shard} of 30\n")
        await bench.settle()
        seen = bench.one()
        assert (seen.state, seen.stage, seen.progress) == (
            ReplicaState.STARTING,
            "loading weights",
            f"{shard} of 30 shards",
        )
    assert bench.supervisor.revision == revision, "a gauge moves without a new revision"
    await bench.after(60)
    assert bench.one().failure == "not ready, and no progress for 60 s (loading weights, 3 of 30 shards)"


async def test_an_engine_that_answers_wrongly_gets_a_short_grace(bench: Bench) -> None:
    bench.prober.answers |= {HEALTH.path: OK, TOKEN.path: WRONG}
    await bench.send(run_entry())
    await bench.after(9)
    assert bench.one().state is ReplicaState.STARTING
    await bench.after(1)
    assert bench.one().failure == "it answers, and not as this replica should: another model answers"
    assert not bench.driver.group_alive(bench.driver.newest.identity)


async def test_silence_in_between_starts_the_grace_anew(bench: Bench) -> None:
    bench.prober.answers[HEALTH.path] = WRONG
    await bench.send(run_entry())
    await bench.after(9)
    bench.prober.answers[HEALTH.path] = SILENT
    await bench.after(1)
    bench.prober.answers[HEALTH.path] = WRONG
    await bench.after(9)
    assert bench.one().state is ReplicaState.STARTING


async def test_it_waits_for_its_gpus_until_the_process_before_is_gone(bench: Bench) -> None:
    before = run_entry(model="big", gpus=(0, 1))
    bench.driver.ignores_term = True
    await bench.serve(before)
    bench.prober.answers.clear()
    await bench.send(stop_entry(before, withdraw=0, drain=0), run_entry(gpus=(1,)))
    waits = next(each for each in bench.node().replicas if each.entry.model == "tiny")
    assert waits.state is ReplicaState.PENDING
    assert waits.stage == f"waiting for {before.id} to free its GPUs"
    await bench.through(20)
    assert bench.one().state is ReplicaState.STARTING
    assert bench.one().entry.model == "tiny"


async def test_a_port_in_use_is_not_taken_and_the_own_one_comes_back(bench: Bench) -> None:
    first = await bench.serve(run_entry())
    assert first.address is not None
    bench.driver.newest.end(code=1)
    await bench.settle()
    await bench.after(10)
    assert bench.one().address == first.address
    bench.driver.newest.end(code=1)
    await bench.settle()
    with socket.create_server(("127.0.0.1", int(first.address.rpartition(":")[2]))):
        await bench.after(20)
    assert bench.one().state is ReplicaState.READY
    assert bench.one().address != first.address


async def test_replicas_of_one_node_get_ports_of_their_own(bench: Bench) -> None:
    await bench.send(*(run_entry(ordinal) for ordinal in range(8)))
    assert len({each.address for each in bench.node().replicas}) == 8


async def test_a_launch_that_cannot_be_written_down_is_not_made(bench: Bench) -> None:
    await bench.send(run_entry())
    bench.driver.newest.end(code=1)
    await bench.settle()
    bench.supervisor._replicas[run_entry().id].reassign(run_entry(attempt=1))
    with full_disk():
        await bench.settle()
        assert bench.one().state is ReplicaState.PENDING
        assert "cannot be written" in (bench.one().stage or "")
        assert len(bench.driver.processes) == 1
    await bench.after(5)
    assert bench.one().state is ReplicaState.STARTING


async def test_ready_timeout_of_a_running_start_can_be_changed(bench: Bench) -> None:
    await bench.send(run_entry(ready_timeout=600))
    await bench.send(run_entry(ready_timeout=5))
    assert bench.one().entry.ready_timeout == timedelta(seconds=5)
    await bench.after(5)
    assert bench.one().state is ReplicaState.FAILED
