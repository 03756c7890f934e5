"""Answers of engines that do not run here, SGLang and TensorRT-LLM, as their sources give them; figures are ours."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from reconciler.agent.probes import Prober
from reconciler.domain.model_spec import Engine, Task
from reconciler.engines.base import Answer, Health, InFlight, Paths, Probe
from reconciler.engines.registry import support
from tests.engines.conformance import ADAPTERS, a_declaration
from tests.engines.http_stand_in import standing_in

if TYPE_CHECKING:
    from reconciler.engines.base import EngineSupport

SGLANG_METRICS = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",model_name="m",tp_rank="0"} 2.0
sglang:num_running_reqs{dp_rank="1",model_name="m",tp_rank="0"} 1.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{dp_rank="0",model_name="m",tp_rank="0"} 4.0
sglang:num_queue_reqs{dp_rank="1",model_name="m",tp_rank="0"} 0.0
# TYPE sglang:num_grammar_queue_reqs gauge
sglang:num_grammar_queue_reqs{dp_rank="0",model_name="m",tp_rank="0"} 1.0
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="m"} 0.31
"""
MODELS = {
    "object": "list",
    "data": [{"id": "m", "root": "m", "parent": None}, {"id": "sql", "root": "/weights/sql", "parent": "m"}],
}
COMPLETION = {"choices": [{"text": "a"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


def engine(kind: Engine) -> EngineSupport:
    found = support(kind)
    assert found is not None
    return found


def test_sglang_gets_ready_by_its_name_and_a_token_and_tells_its_load_and_adapters() -> None:
    declaration = a_declaration(Engine.SGLANG, adapters=ADAPTERS)
    sglang = engine(Engine.SGLANG)

    async def look(url: str) -> tuple[list[Health], InFlight | None, frozenset[str] | None]:
        prober, within = Prober(), timedelta(seconds=10)

        async def ask(probe: Probe | None) -> Answer:
            assert probe is not None
            return await prober.send(url, probe, within)

        probes = (*sglang.readiness(declaration), sglang.liveness())
        healths = [sglang.judge(declaration, probe, await ask(probe)).health for probe in probes]
        load, adapters = sglang.read_load(await ask(sglang.load())), sglang.read_adapters(await ask(sglang.adapters()))
        await prober.aclose()
        return healths, load, adapters

    pages = {"/v1/models": MODELS, "/v1/completions": COMPLETION, "/health": "", "/metrics": SGLANG_METRICS}
    with standing_in(pages) as url:
        healths, load, adapters = anyio.run(look, url)
    assert healths == [Health.OK] * 3
    assert load == InFlight(running=3, waiting=5)
    assert adapters == frozenset({"sql"})


@pytest.mark.parametrize(
    ("page", "load"),
    [
        ("sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n", InFlight(0, 0)),
        ("sglang_num_running_reqs 1\nsglang_num_queue_reqs 2\n", InFlight(1, 2)),
        ("sglang:num_running_reqs 1\n", None),
        ("vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n", None),
    ],
)
def test_sglangs_load_by_every_known_name(page: str, load: InFlight | None) -> None:
    assert engine(Engine.SGLANG).read_load(Answer(200, page.encode())) == load


def test_sglang_that_drains_or_makes_no_token_is_silent() -> None:
    sglang = engine(Engine.SGLANG)
    verdict = sglang.judge(a_declaration(Engine.SGLANG), sglang.liveness(), Answer(503))
    assert (verdict.health, verdict.detail) == (
        Health.SILENT,
        "/health answers 503: it starts, drains, or makes no token",
    )


@pytest.mark.parametrize(
    ("body", "health"),
    [
        ([{"score": 0.98, "document": "ready", "index": 0}], Health.OK),
        ([{"index": 0}], Health.WRONG),
        ([], Health.WRONG),
        ({"results": [{"index": 0, "relevance_score": 0.5}]}, Health.OK),
    ],
)
def test_sglangs_scores_come_as_a_list(body: Any, health: Health) -> None:
    declaration = a_declaration(Engine.SGLANG, task=Task.RERANK)
    question = engine(Engine.SGLANG).readiness(declaration)[-1]
    answer = Answer(200, json.dumps(body).encode())
    assert engine(Engine.SGLANG).judge(declaration, question, answer).health is health


@pytest.mark.parametrize(
    ("body", "load"),
    [
        ([], InFlight(0, 0)),
        (
            [{"iter": 7, "numActiveRequests": 9}, {"iter": 8, "numActiveRequests": 2, "numQueuedRequests": 3}],
            InFlight(2, 3),
        ),
        ([{"iter": 8, "numActiveRequests": 2}], InFlight(2, 0)),
        ([{"iter": 8}], None),
        ([{"numActiveRequests": -1}], None),
        ({"detail": "Not Found"}, None),
        ([1], None),
    ],
)
def test_trtllms_load_is_that_of_its_last_step_and_none_without_a_step(body: Any, load: InFlight | None) -> None:
    assert engine(Engine.TRTLLM).read_load(Answer(200, json.dumps(body).encode())) == load


@pytest.mark.parametrize(
    ("version", "name", "health"),
    [("1.4.0", "m", Health.OK), ("1.4.0", "weights-m", Health.WRONG), ("1.2.1", "weights-m", Health.OK)],
)
def test_trtllm_is_held_to_its_name_from_the_version_on_that_takes_one(version: str, name: str, health: Health) -> None:
    declaration = a_declaration(Engine.TRTLLM, version=version)
    models = Probe("GET", "/v1/models")
    answer = Answer(200, json.dumps({"object": "list", "data": [{"id": name}]}).encode())
    assert engine(Engine.TRTLLM).judge(declaration, models, answer).health is health


@pytest.mark.parametrize(
    ("model", "name", "health"),
    [
        ("/weights/llama", "llama", Health.OK),
        ("/weights/llama/", "llama", Health.OK),
        ("/weights/llama", "m", Health.WRONG),
        ("/weights/llama", "/weights/llama", Health.WRONG),
        ("/weights/llama", None, Health.WRONG),
    ],
)
def test_a_version_of_trtllm_that_takes_no_name_has_that_of_its_directory(
    model: str, name: str | None, health: Health
) -> None:
    declaration, models = a_declaration(Engine.TRTLLM, version="1.2.1"), Probe("GET", "/v1/models")
    answer = Answer(200, json.dumps({"object": "list", "data": [{"id": name}]}).encode())
    verdict = engine(Engine.TRTLLM).judge(declaration, models, answer, Paths(model))
    assert verdict.health is health
    told = "" if health is Health.OK else f"/v1/models lists {name}, not llama, its directory's name"
    assert verdict.detail == told


def test_a_version_of_trtllm_that_takes_no_name_still_lists_one_model() -> None:
    declaration, models = a_declaration(Engine.TRTLLM, version="1.2.1"), Probe("GET", "/v1/models")
    for body in (b"", b"{}", b'{"data": []}', b'{"data": [{"id": "a"}, {"id": "b"}]}'):
        assert engine(Engine.TRTLLM).judge(declaration, models, Answer(200, body)).health is Health.WRONG


def test_trtllm_and_comfyui_have_no_adapters_to_load() -> None:
    for kind in (Engine.TRTLLM, Engine.COMFYUI):
        declaration = a_declaration(kind)
        assert engine(kind).load_adapter(declaration, "new", "/weights/new") is None
        assert engine(kind).unload_adapter(declaration, "new") is None
        assert engine(kind).adapters() is None
