"""Plan files against a real agent: fresh, of another commit, used, stale by a real change, and changes elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Site

pytestmark = pytest.mark.timeout(300)

OTHER = """name: other
source: file:{weights}
context: 256
unverified: true
profiles:
  - {{name: cpu, engine: llamacpp, memory_gib: 1, cpu_cores: 1}}
rollout: {{min_ready: 0s, withdraw_delay: 0s, drain_timeout: 10s}}
"""


@pytest.fixture
def serving(site: Site) -> Site:
    """A machine that serves two models, and a commit that changes one of them."""
    site.model()
    site.write("cluster/models/other.yaml", OTHER.format(weights=site.weights))
    site.commit()
    site.apply()
    site.model(context=512)
    site.commit("longer context")
    site.run("plan", "--out", "p.json")
    return site


def plan_file(site: Site) -> Path:
    return site.root / "p.json"


def ids(site: Site) -> dict[str, str]:
    return {each["id"].partition("/")[0]: each["id"] for each in site.replicas()}


def kill_engine(site: Site, model: str) -> None:
    """Kill one model's engine, and wait until its agent has noticed."""
    (replica,) = [each for model_ in site.status()["models"] if model_["name"] == model for each in model_["replicas"]]
    (engine,) = [each for each in site.engines() if each.pid == replica["pid"]]
    engine.kill()
    wait_until(lambda: ready(site, model) == 0, 30, f"{model} is seen to have died")


def ready(site: Site, model: str) -> int:
    (count,) = [each["ready"] for each in site.status()["models"] if each["name"] == model]
    return int(count)


def test_a_fresh_plan_is_carried_out_without_a_question_and_only_once(serving: Site) -> None:
    assert plan_file(serving).stat().st_mode & 0o777 == 0o600
    told = json.loads(plan_file(serving).read_bytes())
    wanted = next(each["after"]["id"] for each in told["plan"]["changes"] if each["action"] == "replace")
    # A later commit that leaves the cluster as it was changes nothing about the plan, nor does a stopped agent.
    serving.write("README.md", "words\n")
    serving.git("add", "README.md")
    serving.git("commit", "-q", "-m", "words")
    serving.run("agent", "stop")
    done = serving.run("apply", "p.json")
    assert "1 replaced" in done.stdout
    assert ids(serving)["tiny"] == wanted
    again = serving.run("apply", "p.json", code=4)
    assert "was carried out already" in again.stderr
    assert "applied" in serving.run("status").stdout.splitlines()[0], "all there was to do was done"


def test_what_has_changed_under_a_plan_is_named_and_nothing_is_done(serving: Site) -> None:
    serving.apply()
    before = ids(serving)
    refused = serving.run("apply", "p.json", code=4)
    assert "the plan is stale: 1 of 1 actions no longer holds" in refused.stderr
    assert "tiny/0 (replace surge, this-machine cpu → this-machine cpu): tiny/0@" in refused.stderr
    assert "is no longer there" in refused.stderr
    serving.model(context=1024)
    serving.commit("longer still")
    assert "asks for something else" in serving.run("apply", "p.json", code=4).stderr
    assert ids(serving) == before


def test_what_happens_to_another_model_makes_nothing_stale_and_is_left_alone(serving: Site) -> None:
    before = ids(serving)
    kill_engine(serving, "other")
    done = serving.run("apply", "p.json")
    assert "1 replaced, nothing left to do" in done.stdout
    assert ids(serving)["tiny"] != before["tiny"]
    assert "other" not in done.stdout


def test_a_plan_against_a_saved_observation_is_the_plan_of_that_instant(serving: Site) -> None:
    live = serving.plan()
    serving.run("plan", "--save-observed", "seen.json")
    assert (serving.root / "seen.json").stat().st_mode & 0o777 == 0o600
    serving.run("apply", "p.json")
    then = json.loads(serving.run("plan", "--observed", "seen.json", "--format", "json").stdout)
    assert (then["digest"], then["changes"]) == (live["digest"], live["changes"])
    assert serving.plan()["digest"] != live["digest"]


def test_files_that_are_none_are_told_apart(serving: Site) -> None:
    whole = json.loads(plan_file(serving).read_bytes())
    told = {
        "it is not JSON": "{",
        "is not a plan file": "{}",
        "was changed or cut": json.dumps(whole | {"commit": "0" * 40}),
        "has format 2.0": json.dumps(whole | {"format_version": "2.0"}),
    }
    for words, text in told.items():
        serving.write("bad.json", text)
        assert words in serving.run("apply", "bad.json", code=1).stderr
    assert "cannot be read" in serving.run("apply", "absent.json", code=1).stderr
    serving.write("cluster/cluster.yaml", "name: another\n")
    serving.commit("another fleet")
    assert "is a plan of fleet test, and this is fleet another" in serving.run("apply", "p.json", code=1).stderr
    serving.write("cluster/cluster.yaml", "name: test\n")
    serving.commit("the fleet again")
    worktree = serving.run("plan", "--worktree", "--out", "w.json", code=1)
    assert "cannot be applied" in worktree.stderr
    assert not (serving.root / "w.json").exists()
