"""How vLLM's answers are read: as 0.32 gave them on CPUs, and under the names of other versions."""

from __future__ import annotations

import json

import pytest

from reconciler.engines.base import Answer, Health, InFlight
from reconciler.engines.vllm_answers import HEALTH, judge, load_adapter, read_load, unload_adapter
from tests.engines.vllm_cases import a_declaration

PAGE = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 3.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"} 1.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
"""


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (PAGE, InFlight(2, 3)),
        (PAGE + PAGE.replace(b'engine="0"', b'engine="1"'), InFlight(4, 6)),  # data-parallel ranks
        (PAGE.replace(b"vllm:", b"vllm_"), InFlight(2, 3)),  # through Ray's metrics
        (PAGE.replace(b"vllm:num_requests_waiting{", b"other{"), InFlight(2, 3)),  # by reason only
        (PAGE + b'vllm:num_requests_swapped{model_name="tiny"} 4.0\n', InFlight(2, 7)),  # the first engine
        (PAGE.replace(b"num_requests_running", b"requests_running"), None),
        (PAGE.replace(b"waiting", b"queued"), None),
        (b"", None),
    ],
)
def test_requests_in_flight_are_read_under_the_names_of_every_version(page: bytes, expected: InFlight | None) -> None:
    assert read_load(Answer(200, page)) == expected


def test_a_page_that_is_refused_tells_nothing() -> None:
    assert read_load(Answer(503, PAGE)) is None


@pytest.mark.parametrize(
    ("answer", "health", "detail"),
    [
        (Answer(200), Health.OK, ""),
        (Answer(None), Health.SILENT, "no answer to /health"),
        (Answer(503), Health.SILENT, "/health answers 503: the engine behind the API server is dead"),
        (Answer(404, b'{"detail":"Not Found"}'), Health.WRONG, "/health answers 404: Not Found"),
    ],
)
def test_its_health_is_its_status(answer: Answer, health: Health, detail: str) -> None:
    verdict = judge(a_declaration(), HEALTH, answer)
    assert (verdict.health, verdict.detail) == (health, detail)


def test_an_adapter_is_loaded_by_name_and_path_and_unloaded_by_name() -> None:
    assert load_adapter("sql", "/weights/sql").body == {"lora_name": "sql", "lora_path": "/weights/sql"}
    assert json.dumps(unload_adapter("sql").body) == '{"lora_name": "sql"}'
