"""Two real agents on loopback: one replica over both nodes, whose ranks stand and fall together; and live adapters."""

from __future__ import annotations

import sys
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

import pytest

from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from tests.e2e.pair import NAMES, Pair
from tests.e2e.site import wait_until
from tests.tiny_llama import write_tiny_adapter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

pytestmark = pytest.mark.timeout(240)

STAND_IN = (sys.executable, str(Path(__file__).with_name("vllm_stand_in.py")))


def _is_new(pair: Pair, old: set[int]) -> bool:
    return sorted(pair.ranks()) == [0, 1] and old.isdisjoint(each.pid for each in pair.ranks().values())


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path, Engine.VLLM, STAND_IN)
    yield made
    assert made.clear() == [], "an engine was left behind"


def with_adapters(pair: Pair, *names: str) -> str:
    """A model of one node with these adapters; their paths are in the weights' directory."""
    text = pair.text().replace("nodes: 2", "nodes: 1")
    rows = ", ".join(f"{{name: {name}, source: 'file:{pair.weights}/{name}'}}" for name in names)
    for name in names:
        write_tiny_adapter(pair.weights / name)
    pair.site.write("cluster/models/giant.yaml", f"{text}adapters: [{rows}]\n")
    return pair.site.commit()


def test_adapters_come_and_go_by_apply_and_nothing_restarts(pair: Pair) -> None:
    with_adapters(pair, "sql")
    pair.site.apply()
    (engine,) = pair.engines()
    with_adapters(pair, "sql", "code")
    (change,) = pair.site.plan()["changes"]
    assert (change["action"], [each["field"] for each in change["fields"]]) == ("update", ["adapters"])
    told = pair.site.apply()
    assert pair.listed() == {"giant", "sql", "code"}
    with_adapters(pair, "code")
    pair.site.apply()
    assert pair.listed() == {"giant", "code"}
    assert [each.pid for each in pair.engines()] == [engine.pid], told
    assert [each["action"] for each in pair.site.plan()["changes"]] == ["none"]
    pair.stop()


def word(process: psutil.Process, flag: str) -> str:
    words = process.cmdline()
    return words[words.index(flag) + 1]


def test_each_node_runs_its_rank_and_they_stand_and_fall_together(pair: Pair) -> None:
    pair.model()
    pair.site.apply()
    ranks = pair.ranks()
    assert sorted(ranks) == [0, 1]
    assert {word(each, "--master-addr") for each in ranks.values()} == {"127.0.0.1"}
    assert len({word(each, "--master-port") for each in ranks.values()}) == 1
    assert ("--headless" in ranks[0].cmdline(), "--headless" in ranks[1].cmdline()) == (False, True)
    assert [(each["node"], each["state"]) for each in pair.parts()] == [(name, ReplicaState.READY) for name in NAMES]

    ranks[1].send_signal(SIGKILL)
    old = {each.pid for each in ranks.values()}
    wait_until(lambda: _is_new(pair, old), 120, "the agents have launched both again, with no reconciler there")
    wait_until(pair.serves, 60, "they serve")
    again = pair.ranks()
    assert [each["action"] for each in pair.site.plan()["changes"]] == ["none"]

    pair.agents["gpu-02"].kill()
    pair.agents["gpu-02"].communicate()
    pair.begin("gpu-02")
    wait_until(pair.serves, 30, "the rank is adopted")
    assert {each.pid for each in pair.ranks().values()} == {each.pid for each in again.values()}
    pair.stop()


def test_a_leader_that_goes_on_without_a_rank_is_launched_again_with_it_by_apply(pair: Pair) -> None:
    """No agent knows that it hangs: it answers, and its own process runs."""
    pair.model(further=", env: {STAND_IN_HANGS: yes}")
    pair.site.apply()
    ranks = pair.ranks()
    ranks[1].send_signal(SIGKILL)
    wait_until(lambda: [each["state"] for each in pair.parts()] == ["ready", "failed"], 30, "one part has failed")
    pair.site.apply()
    again = pair.ranks()
    assert sorted(again) == [0, 1]
    assert {each.pid for each in again.values()}.isdisjoint({each.pid for each in ranks.values()})
    assert pair.serves()
    pair.stop()
