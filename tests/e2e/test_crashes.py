"""What survives when something is killed half-way, and what does not happen while two work at once."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

import pytest

from reconciler.agent.local import socket_path
from tests.e2e.site import ask, wait_until

if TYPE_CHECKING:
    import psutil

    from tests.e2e.site import Site

pytestmark = pytest.mark.timeout(300)


def the_agent(site: Site) -> psutil.Process:
    (agent,) = [each for each in site.processes() if "agent" in each.cmdline()]
    return agent


def agent_answers(site: Site) -> bool:
    with socket.socket(socket.AF_UNIX) as link:
        return link.connect_ex(str(socket_path(site.state))) == 0


@pytest.mark.parametrize("lines", [1, 2, 4])
def test_apply_killed_half_way_is_finished_by_the_next_one(site: Site, lines: int) -> None:
    site.model(replicas=2)
    site.commit()
    site.apply()
    site.model(replicas=2, context=512)
    site.commit()
    process = site.start("apply", "--auto-approve")
    assert process.stderr is not None
    for _ in range(lines):  # one more line of progress means one step further into the rollout
        process.stderr.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    if lines == 1:
        assert ", not finished, and nothing goes on with it now" in site.run("status").stdout
    site.apply()
    assert " applied " in site.run("status").stdout.splitlines()[0]
    assert [(each["ordinal"], each["state"]) for each in site.replicas()] == [(0, "ready"), (1, "ready")]
    assert len(site.engines()) == 2
    assert "no changes" in site.apply()


def test_the_first_interrupt_finishes_what_is_in_flight(site: Site) -> None:
    site.model(replicas=2)
    site.commit()
    process = site.start("apply", "--auto-approve")
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode in {0, 130}, "0 when it had just finished"
    assert all(each["state"] == "ready" for each in site.replicas())
    site.apply()
    assert len(site.engines()) == 2


def test_a_killed_agent_leaves_the_engine_serving_and_is_started_again(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    (before,) = site.replicas()
    the_agent(site).kill()
    wait_until(lambda: all("agent" not in each.cmdline() for each in site.processes()), 5, "the agent is gone")
    (seen,) = site.replicas()
    assert (seen["id"], seen["state"], seen["address"]) == (before["id"], "ready", before["address"])
    ask(before["address"])
    assert [each.pid for each in site.processes()] == [before["pid"]], "status started something"
    site.model(replicas=2)
    site.commit()
    site.apply()
    after = {each["ordinal"]: each["pid"] for each in site.replicas()}
    assert after[0] == before["pid"], "the engine was restarted with its agent"
    assert set(after) == {0, 1}


def test_an_engine_that_died_with_its_agent_is_repaired(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    the_agent(site).kill()
    (engine,) = site.engines()
    engine.kill()
    wait_until(lambda: not site.engines(), 5, "the engine is gone")
    (change,) = site.plan()["changes"]
    assert (change["action"], change["reason"]) == ("replace", "died")
    site.apply()
    (replica,) = site.replicas()
    ask(replica["address"])


def test_agent_stop_without_engines_leaves_them_serving(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    (before,) = site.replicas()
    site.run("agent", "stop")
    assert [each.pid for each in site.processes()] == [before["pid"]]
    ask(before["address"])
    assert "no changes" in site.apply()


def test_a_second_reconciler_is_refused_and_told_who_holds_the_fleet(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    site.model(context=512)
    site.write(
        "cluster/models/tiny.yaml", site.read("cluster/models/tiny.yaml").replace("min_ready: 0s", "min_ready: 1d")
    )
    begun = site.commit("a rollout that waits for a day")
    first = site.start("apply", "--auto-approve")
    try:
        wait_until(lambda: len(site.engines()) == 2, 30, "the surge has begun")
        site.model(context=768)
        site.commit()
        refused = site.run("apply", "--auto-approve", code=5)
        assert f"{first.pid}" in refused.stderr
        assert len(site.engines()) == 2
        assert f"commit {begun[:7]} being applied since" in site.run("status").stdout
    finally:
        first.kill()
        first.communicate()
    assert f"commit {begun[:7]} begun " in site.run("status").stdout
    site.apply()
    assert len(site.engines()) == 1


def test_a_state_directory_that_cannot_be_written_is_one_message(site: Site) -> None:
    site.model()
    site.commit()
    site.write("plain-file", "")
    site.env["RECONCILER_STATE_DIR"] = str(site.root / "plain-file" / "below")
    done = site.run("apply", "--auto-approve", code=1)
    assert "Traceback" not in done.stderr
    assert "cannot be written" in done.stderr
    site.env["RECONCILER_STATE_DIR"] = str(site.state)


def test_a_drain_whose_agent_and_reconciler_died_is_finished_by_the_next_apply(site: Site) -> None:
    site.model(replicas=2, withdraw="1d")
    site.commit()
    site.apply()
    site.model(replicas=1, withdraw="1d")
    site.commit()
    process = site.start("apply", "--auto-approve")
    wait_until(lambda: "draining" in {each["state"] for each in site.replicas()}, 30, "the drain has begun")
    the_agent(site).kill()
    process.kill()
    process.communicate()
    again = site.start("apply", "--auto-approve")
    try:
        wait_until(lambda: agent_answers(site), 20, "an agent runs again")
    finally:
        again.kill()
        again.communicate()


def test_apply_starts_a_dead_agent_although_nothing_else_is_to_do(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    (before,) = site.replicas()
    the_agent(site).kill()
    wait_until(lambda: all("agent" not in each.cmdline() for each in site.processes()), 5, "the agent is gone")
    assert "no changes" in site.apply()
    the_agent(site)
    (after,) = site.replicas()
    assert after["pid"] == before["pid"]


def test_a_full_disk_does_not_keep_a_killed_engine_from_being_repaired(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    (site.state / "aim.json").unlink()
    (site.state / "aim.json").mkdir()  # nothing can be renamed onto a directory: the record cannot be written
    (engine,) = site.engines()
    engine.kill()
    wait_until(lambda: not site.engines(), 5, "the engine is gone")
    done = site.run("apply", "--auto-approve")
    assert "cannot be written" in done.stderr
    (replica,) = site.replicas()
    ask(replica["address"])
