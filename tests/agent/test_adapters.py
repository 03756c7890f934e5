"""Adapters that come and go while an engine serves: loaded and taken out through it, and held against what it lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from reconciler.agent.adapters import RETRY
from reconciler.domain.declaration import Declaration, DeclaredAdapter
from reconciler.domain.model_spec import Engine
from reconciler.domain.observed import ReplicaState
from reconciler.domain.placement import Placement, replica_id
from reconciler.engines.base import Answer, Paths, Probe
from tests.agent.bench import Bench, ScriptedProber
from tests.agent.entries import run_entry, stop_entry

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from reconciler.domain.assignment import RunEntry

pytestmark = pytest.mark.anyio


class Loading(ScriptedProber):
    """An engine's answers about its adapters: those of its start, and those that it was told of since."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.loaded = {name: f"/{name}" for name in names}
        self.refuses: set[str] = set()
        self.told: list[str] = []

    @override
    async def send(
        self,
        url: str,
        probe: Probe,
        timeout: timedelta,
        key: str | None = None,
    ) -> Answer:
        if probe.path != "/adapters":
            return await super().send(url, probe, timeout, key)
        if probe.method == "GET":
            return Answer(200, " ".join(self.loaded).encode())
        assert probe.body is not None
        name = probe.body["name"]
        self.told.append(f"{probe.method} {name}")
        if name in self.refuses:
            return Answer(400, b'{"error": {"message": "its rank is 64"}}')
        if probe.method == "DELETE":
            del self.loaded[name]
        else:
            assert name not in self.loaded, "vLLM refuses to load one that is there"
            self.loaded[name] = probe.body["path"]
        return Answer(200)


def adapters(*names: str, version: str = "1") -> tuple[DeclaredAdapter, ...]:
    return tuple(DeclaredAdapter(name=name, source=f"file:/{name}-{version}") for name in names)


def entry(*wanted: DeclaredAdapter, engine: Engine = Engine.VLLM) -> RunEntry:
    usual = run_entry(engine=engine)
    declared = Declaration.model_validate(usual.declaration.model_dump() | {"adapters": wanted})
    digest = declared.launch_digest()
    id_ = replica_id(usual.model, 0, digest, None, None, usual.placement.shards)
    placement = Placement(id=id_, shards=usual.placement.shards)
    return usual.model_copy(update={"id": id_, "placement": placement, "declaration": declared, "digest": digest})


def at(directory: Path, *loaded: str, kind: Engine = Engine.VLLM) -> tuple[Bench, Loading]:
    prober = Loading(*loaded)
    return Bench(directory, prober=prober, kind=kind), prober


async def test_it_is_ready_with_the_adapters_that_its_engine_lists(tmp_path: Path) -> None:
    bench, prober = at(tmp_path, "sql")
    seen = await bench.serve(entry(*adapters("sql")))
    assert (seen.state, seen.adapters, seen.adapter_failure) == (ReplicaState.READY, adapters("sql"), None)
    assert prober.told == []


async def test_its_answers_are_judged_with_the_paths_of_its_files(tmp_path: Path) -> None:
    bench, _ = at(tmp_path, "sql")
    first = entry(*adapters("sql"))
    await bench.serve(first)
    (replica,) = bench._replicas()
    assert replica.watch.paths == Paths(first.declaration.source.removeprefix("file:"), {"sql": "/sql-1"})


async def test_what_was_taken_over_is_judged_without_paths(tmp_path: Path) -> None:
    bench, _ = at(tmp_path, "sql")
    await bench.serve(entry(*adapters("sql")))
    bench.restart()
    await bench.settle()
    (replica,) = bench._replicas()
    assert (replica.watch.paths, bench.one().state) == (None, ReplicaState.READY)


async def test_others_are_loaded_and_taken_out_while_it_serves(tmp_path: Path) -> None:
    bench, prober = at(tmp_path, "sql", "code")
    first = entry(*adapters("sql", "code"))
    before = await bench.serve(first)
    after = entry(*adapters("sql", "talk"))
    assert after.id == first.id, "nothing about the launch differs"
    await bench.send(after)
    seen = bench.one()
    assert prober.told == ["DELETE code", "POST talk"]
    assert prober.loaded["talk"] == "/talk-1"
    assert (seen.adapters, seen.pid, seen.routable) == (adapters("sql", "talk"), before.pid, True)
    await bench.after(5)
    assert len(prober.told) == 2, "once is enough"


async def test_one_from_another_source_is_taken_out_first(tmp_path: Path) -> None:
    bench, prober = at(tmp_path, "sql")
    await bench.serve(entry(*adapters("sql")))
    await bench.send(entry(*adapters("sql", version="2")))
    await bench.after(5)
    assert (prober.told, prober.loaded) == (["DELETE sql", "POST sql"], {"sql": "/sql-2"})
    assert bench.one().adapters == adapters("sql", version="2")


async def test_one_that_is_refused_is_said_and_tried_again(tmp_path: Path) -> None:
    bench, prober = at(tmp_path, "sql")
    await bench.serve(entry(*adapters("sql")))
    prober.refuses.add("wide")
    await bench.send(entry(*adapters("sql", "wide")))
    await bench.after(5)
    seen = bench.one()
    assert (seen.state, seen.adapters) == (ReplicaState.READY, adapters("sql"))
    assert seen.adapter_failure == "the adapter wide cannot be loaded: its rank is 64"
    await bench.after(5)
    assert prober.told == ["POST wide"]
    prober.refuses.clear()
    await bench.after(RETRY)
    assert (bench.one().adapters, bench.one().adapter_failure) == (adapters("sql", "wide"), None)


async def test_one_whose_files_are_not_there_is_said(tmp_path: Path) -> None:
    bench, prober = at(tmp_path, "sql")
    bench.missing.add("file:/gone-1")
    await bench.serve(entry(*adapters("sql")))
    await bench.send(entry(*adapters("sql", "gone")))
    await bench.after(5)
    assert bench.one().adapter_failure == "the adapter gone cannot be loaded: file:/gone-1: no such file"
    assert prober.told == []


async def test_the_next_agent_knows_what_was_loaded_and_from_where(tmp_path: Path) -> None:
    bench, prober = at(tmp_path, "sql")
    await bench.serve(entry(*adapters("sql")))
    await bench.send(entry(*adapters("sql", "talk")))
    await bench.after(5)
    bench.restart()
    await bench.settle()
    assert bench.one().adapters == adapters("sql", "talk")
    assert prober.told == ["POST talk"]


async def test_a_start_that_lost_an_adapter_is_seen_through(tmp_path: Path) -> None:
    bench, _ = at(tmp_path, kind=Engine.LLAMACPP)
    seen = await bench.serve(entry(*adapters("sql"), engine=Engine.LLAMACPP))
    assert (seen.state, seen.adapters) == (ReplicaState.READY, ())
    assert seen.adapter_failure == "the engine does not list the adapter sql"


async def test_other_adapters_are_another_body_where_they_take_a_start(tmp_path: Path) -> None:
    bench, _ = at(tmp_path, "sql", kind=Engine.LLAMACPP)
    first = entry(*adapters("sql"), engine=Engine.LLAMACPP)
    await bench.serve(first)
    other = entry(*adapters("code"), engine=Engine.LLAMACPP)
    assert other.id != first.id
    declared = first.declaration.model_copy(update={"adapters": adapters("code")})
    with pytest.raises(AssertionError, match="held with another body"):
        await bench.send(first.model_copy(update={"declaration": declared}))


async def test_nobody_is_asked_of_adapters_while_it_stops(tmp_path: Path) -> None:
    bench, prober = at(tmp_path, "sql")
    first = entry(*adapters("sql"))
    await bench.serve(first)
    await bench.send(stop_entry(first))
    await bench.after(5)
    assert prober.told == []
