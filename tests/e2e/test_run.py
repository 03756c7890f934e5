"""`reconciler run` in its first form: commits in, repairs, bad commits held off, engines left serving."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import ask, interrupting, wait_until

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.timeout(300)

WITHIN = 30.0


def serves(site: Site, replicas: int) -> bool:
    return len(site.engines()) == replicas and len(site.addresses()) == replicas


def test_run_takes_good_commits_repairs_and_leaves_engines_serving(site: Site) -> None:
    site.model()
    site.commit()
    with interrupting(site.start("run")) as run:
        wait_until(lambda: serves(site, 1), WITHIN, "the first commit is served")
        site.model(replicas=2)
        site.commit("two replicas")
        wait_until(lambda: serves(site, 2), WITHIN, "the second commit is served")
        victim = site.engines()[0]
        victim.kill()
        wait_until(lambda: victim not in site.engines() and serves(site, 2), WITHIN, "what died is repaired")
        pids = sorted(each.pid for each in site.engines())
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=20)
        assert run.returncode == 0, err
    assert sorted(each.pid for each in site.engines()) == pids
    for address in site.addresses():
        ask(address)


def test_a_bad_commit_is_named_and_the_last_good_one_is_kept(site: Site) -> None:
    site.model()
    good = site.commit()
    process = site.start("run")
    with interrupting(process):
        wait_until(lambda: serves(site, 1), WITHIN, "the good commit is served")
        (before,) = site.engines()
        site.model(contxt="12")
        bad = site.commit("a typing mistake")
        assert process.stderr is not None
        said = ""
        while bad[:7] not in said:
            said = process.stderr.readline()
            assert said, "run ended"
        assert f"going on with {good[:7]}" in said
        assert "yaml/unknown-field" in process.stderr.readline()
        before.kill()
        wait_until(
            lambda: before not in site.engines() and serves(site, 1), WITHIN, "repair goes on under a bad commit"
        )
        site.git("revert", "--no-edit", "HEAD")
        site.model(replicas=2)
        site.commit("mended")
        wait_until(lambda: serves(site, 2), WITHIN, "the mended commit is taken")


def test_run_started_on_a_bad_commit_goes_on_with_the_last_good_one(site: Site) -> None:
    site.model()
    site.commit()
    site.apply()
    (engine,) = site.engines()
    engine.kill()
    site.model(contxt="12")
    site.commit("a typing mistake")
    with interrupting(site.start("run")):
        wait_until(
            lambda: bool(site.engines()) and engine not in site.engines(), WITHIN, "the last good commit is kept"
        )


def test_a_commit_that_empties_the_tree_stops_nothing(site: Site) -> None:
    site.model()
    site.commit()
    with interrupting(site.start("run")) as run:
        wait_until(lambda: serves(site, 1), WITHIN, "it is served")
        site.git("rm", "-rq", "cluster")
        site.git("commit", "-q", "-m", "oops")
        assert run.stderr is not None
        while "cluster" not in (line := run.stderr.readline()) or "going on" not in line:
            assert line, "run ended"
        assert len(site.engines()) == 1
        site.git("reset", "-q", "--hard", "HEAD~1")
        assert len(site.engines()) == 1
