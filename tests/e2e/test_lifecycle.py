"""What a user can do on one machine, each through the real command, agent and engine."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.e2e.site import ask, wait_until

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.timeout(300)


def actions(site: Site) -> list[tuple[str, str, str]]:
    return [(each["replica"], each["action"], each["reason"]) for each in site.plan()["changes"]]


def test_a_model_is_served_and_a_second_apply_changes_nothing(site: Site) -> None:
    site.model()
    site.commit()
    assert actions(site) == [("tiny/0", "create", "new")]
    assert site.processes() == [], "plan started something"
    said = site.apply()
    assert "1 created" in said
    (replica,) = site.replicas()
    assert (replica["state"], replica["routable"], replica["node"]) == ("ready", True, "this-machine")
    assert isinstance(ask(replica["address"]), str)
    pids = [each.pid for each in site.engines()]
    assert "no changes" in site.apply()
    assert [each.pid for each in site.engines()] == pids
    assert site.run("plan", "--detailed-exitcode").returncode == 0


def test_nothing_listens_beyond_loopback(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    listening = [
        each.laddr.ip
        for process in site.processes()
        for each in process.net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::1"}


def test_a_changed_context_is_surged_and_the_plan_says_why(site: Site) -> None:
    site.model(context=256)
    site.commit()
    site.apply()
    (before,) = site.replicas()
    site.model(context=512)
    site.commit("longer context")
    (change,) = site.plan()["changes"]
    assert (change["action"], change["strategy"], change["reason"]) == ("replace", "surge", "changed")
    assert change["fields"] == [{"field": "context", "before": 256, "after": 512}]
    assert change["before"]["id"] == before["id"]
    site.apply()
    (after,) = site.replicas()
    assert after["id"] != before["id"]
    assert after["id"] == change["after"]["id"]
    assert len(site.engines()) == 1
    ask(after["address"])


def test_in_place_stops_the_old_replica_first(site: Site) -> None:
    site.model(strategy="in_place")
    site.commit()
    site.apply()
    site.model(strategy="in_place", context=512)
    site.commit()
    (change,) = site.plan()["changes"]
    assert (change["action"], change["strategy"]) == ("replace", "in_place")
    site.apply()
    (after,) = site.replicas()
    assert after["state"] == "ready"
    assert len(site.engines()) == 1


def test_a_killed_engine_is_shown_by_plan_and_repaired_by_apply(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    (before,) = site.replicas()
    (engine,) = site.engines()
    engine.send_signal(signal.SIGKILL)
    wait_until(lambda: not site.engines(), 5, "the engine is gone")
    (change,) = site.plan()["changes"]
    assert (change["replica"], change["action"], change["reason"]) == ("tiny/0", "replace", "died")
    assert "1 replaced" in site.apply()
    (after,) = site.replicas()
    assert after["id"] == before["id"], "a restart in place keeps the id"
    assert after["pid"] != before["pid"]
    ask(after["address"])


def test_scaling_leaves_exactly_the_desired_replicas(site: Site) -> None:
    site.model(replicas=1)
    site.commit()
    site.apply()
    for replicas in (2, 0, 1):
        site.model(replicas=replicas)
        site.commit(f"scale to {replicas}")
        site.apply()
        assert len(site.engines()) == replicas
        assert [each["ordinal"] for each in site.replicas()] == list(range(replicas))
        assert "no changes" in site.apply()


def test_a_removed_model_is_stopped(site: Site) -> None:
    site.model()
    site.write("cluster/models/keep.yaml", "name: keep\nexternal: {url: http://127.0.0.1:9}\n")
    site.commit()
    site.apply()
    (site.root / "cluster/models/tiny.yaml").unlink()
    site.commit("remove tiny")
    assert actions(site) == [("tiny/0", "delete", "removed")]
    site.apply()
    assert site.engines() == []


def test_an_edit_that_is_not_committed_is_named_and_not_read(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    site.model(context=512)
    done = site.run("plan")
    assert "no changes" in done.stdout
    assert "cluster/models/tiny.yaml" in done.stderr
    assert "256 → 512" in site.run("plan", "--worktree").stdout


def test_a_launch_that_fails_ends_the_apply_with_one_sentence_and_keeps_what_serves(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    (before,) = site.replicas()
    site.write("junk.gguf", "this is no model")
    site.model()
    site.write("cluster/models/tiny.yaml", site.read("cluster/models/tiny.yaml").replace("tiny.gguf", "junk.gguf"))
    site.commit("bad weights")
    done = site.run("apply", "--auto-approve", code=1)
    assert "junk.gguf" in done.stdout + done.stderr
    assert before["address"] in site.addresses()
    ask(before["address"])
    site.git("revert", "--no-edit", "HEAD")
    site.apply()
    (after,) = site.replicas()
    assert (after["id"], after["pid"]) == (before["id"], before["pid"]), "the revert restarted what served"
