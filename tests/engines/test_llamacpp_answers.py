"""How answers are read: as llama-server b11434 and the wheel gave them, and as nothing should ever give them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.model_spec import Task
from reconciler.engines.base import Answer, Health, InFlight, Paths, Probe, Verdict
from reconciler.engines.llamacpp_answers import ADAPTERS, HEALTH, METRICS, judge, read_load
from reconciler.engines.openai_answers import MODELS, question
from tests.engines.declarations import CASES, a_declaration

TOKEN, EMBEDDING, SCORE = (question(a_declaration(task=task)) for task in (Task.GENERATE, Task.EMBED, Task.RERANK))


def answer(status: int | None, content: Any = None) -> Answer:
    return Answer(status, content if isinstance(content, bytes) else json.dumps(content).encode())


def error(status: int, message: str) -> Answer:
    return answer(status, {"error": {"message": message, "type": "some_error", "code": status}})


def models(identity: str, *aliases: str) -> Answer:
    return answer(200, {"object": "list", "data": [{"id": identity, "aliases": list(aliases), "object": "model"}]})


def completion(tokens: int, text: str = "G") -> Answer:
    usage = {"completion_tokens": tokens, "prompt_tokens": 6, "total_tokens": 6 + tokens}
    return answer(200, {"choices": [{"text": text, "finish_reason": "length"}], "usage": usage})


@pytest.mark.parametrize(
    ("probe", "given_answer", "health", "detail"),
    [
        (HEALTH, answer(200, {"status": "ok"}), Health.OK, ""),
        (HEALTH, error(503, "Loading model"), Health.LOADING, "it is loading the model"),
        (MODELS, error(503, "Loading model"), Health.LOADING, "it is loading the model"),
        (HEALTH, answer(None), Health.SILENT, "no answer to /health"),
        (HEALTH, error(503, "no slot available"), Health.SILENT, "/health answers 503: no slot available"),
        (
            HEALTH,
            answer(200, b"<html>It works!</html>"),
            Health.WRONG,
            "/health answers without a status: another program is on this port",
        ),
        (HEALTH, answer(404, b"Not Found"), Health.WRONG, "/health answers 404: Not Found"),
        (HEALTH, answer(404, b""), Health.WRONG, "/health answers 404: nothing"),
        (MODELS, models("tiny", "tiny"), Health.OK, ""),
        (MODELS, models("a-tiny", "a-tiny", "tiny"), Health.OK, ""),  # the id is the first alias by the alphabet
        (MODELS, models("tiny"), Health.OK, ""),
        (MODELS, models("other", "other"), Health.WRONG, "/v1/models lists other, not tiny"),
        (MODELS, answer(200, {"data": []}), Health.WRONG, "/v1/models lists no model, not tiny"),
        (MODELS, error(401, "Invalid API Key"), Health.WRONG, "/v1/models answers 401: Invalid API Key"),
        (TOKEN, completion(1), Health.OK, ""),
        (TOKEN, completion(1, text=""), Health.OK, ""),  # a token may be half of a character
        (TOKEN, completion(0, text=""), Health.WRONG, "/v1/completions answers without a token"),
        (TOKEN, error(500, "Compute error."), Health.WRONG, "/v1/completions answers 500: Compute error."),
        (TOKEN, error(429, "slow down"), Health.SILENT, "/v1/completions answers 429: slow down"),
        (EMBEDDING, answer(200, {"data": [{"embedding": [0.9, 0.1]}]}), Health.OK, ""),
        (
            EMBEDDING,
            answer(200, {"data": [{"embedding": []}]}),
            Health.WRONG,
            "/v1/embeddings answers without an embedding",
        ),
        (
            EMBEDDING,
            error(400, "Pooling type 'none' is not OAI compatible"),
            Health.WRONG,
            "/v1/embeddings answers 400: Pooling type 'none' is not OAI compatible",
        ),
        (SCORE, answer(200, {"results": [{"index": 0, "relevance_score": -5.8}]}), Health.OK, ""),
        (SCORE, answer(200, {"results": []}), Health.WRONG, "/v1/rerank answers without a score"),
    ],
)
def test_an_answer_is_judged(probe: Probe, given_answer: Answer, health: Health, detail: str) -> None:
    verdict = judge(CASES["cpu"], probe, given_answer)
    assert (verdict.health, verdict.detail) == (health, detail)


SQL, CHAT = ({"id": 0, "path": "/w/sql.gguf", "scale": 0.5}, {"id": 1, "path": "/w/chat.gguf", "scale": 1.0})
WHERE = Paths("/w/tiny.gguf", {"sql": "/w/sql.gguf", "chat": "/w/chat.gguf"})


@pytest.mark.parametrize(
    ("rows", "detail"),
    [
        ([SQL, CHAT], ""),
        ([SQL | {"task_name": "", "prompt_prefix": ""}, CHAT], ""),
        ([SQL], "/lora-adapters lists 1 adapters, and 2 are declared"),
        ([SQL, CHAT, CHAT | {"id": 2}], "/lora-adapters lists 3 adapters, and 2 are declared"),
        ([], "/lora-adapters lists 0 adapters, and 2 are declared"),
        (
            [CHAT | {"id": 0, "scale": 0.5}, CHAT],
            "/lora-adapters lists /w/chat.gguf as number 0 where sql is declared",
        ),
        ([SQL, CHAT | {"id": 0}], "/lora-adapters lists /w/chat.gguf as number 0 where chat is declared"),
        ([SQL, CHAT | {"scale": 0}], "/lora-adapters lists chat at scale 0, and 1 is declared"),
        ([SQL, CHAT | {"scale": True}], "/lora-adapters lists chat at scale True, and 1 is declared"),
        ([SQL, CHAT | {"scale": 10**400}], f"/lora-adapters lists chat at scale 1{'0' * 39}, and 1 is declared"),
        ([SQL | {"scale": None}, CHAT], "/lora-adapters lists sql at scale None, and 0.5 is declared"),
        ({"error": 1}, "/lora-adapters answers without a list"),
        ([1, 2], "/lora-adapters answers without a list"),
        (b"", "/lora-adapters answers without a list"),
    ],
)
def test_its_adapters_are_the_declared_ones_in_order_and_at_their_scales(rows: Any, detail: str) -> None:
    verdict = judge(CASES["cpu, scaled adapters"], ADAPTERS, answer(200, rows), WHERE)
    assert verdict == (Verdict(Health.WRONG, detail) if detail else Verdict(Health.OK))


def test_of_an_engine_that_served_before_only_the_number_is_asked() -> None:
    declaration, moved = CASES["cpu, scaled adapters"], answer(200, [SQL | {"path": "/x", "scale": 0.0}, CHAT])
    assert judge(declaration, ADAPTERS, moved) == Verdict(Health.OK)
    assert judge(declaration, ADAPTERS, answer(200, [SQL])).health is Health.WRONG


def test_a_scale_comes_back_as_a_32_bit_float() -> None:
    declared = a_declaration(adapters=[{"name": "sql", "source": "file:/w/sql.gguf", "scale": 0.3}])
    for scale, health in ((0.30000001192092896, Health.OK), (0.31, Health.WRONG)):
        assert judge(declared, ADAPTERS, answer(200, [SQL | {"scale": scale}]), WHERE).health is health


def test_a_long_message_is_cut_to_one_line() -> None:
    verdict = judge(CASES["cpu"], HEALTH, error(500, "all is\n lost\t" * 500))
    assert verdict.detail.startswith("/health answers 500: all is lost all is lost")
    assert len(verdict.detail) < 250


METRICS_PAGE = b"""# HELP llamacpp:n_tokens_max Largest observed sequence length (prompt + generation)
# TYPE llamacpp:n_tokens_max counter
llamacpp:n_tokens_max 42
# HELP llamacpp:requests_processing Number of requests processing
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 1
# HELP llamacpp:requests_deferred Number of requests deferred
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 2
"""


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (METRICS_PAGE, InFlight(running=1, waiting=2)),
        (METRICS_PAGE.replace(b"llamacpp:", b""), InFlight(running=1, waiting=2)),
        (METRICS_PAGE.replace(b"processing 1", b'processing{model="a b"} 1.0'), InFlight(running=1, waiting=2)),
        (METRICS_PAGE.replace(b"processing 1", b"processing 1 1700000000000"), InFlight(running=1, waiting=2)),
        (METRICS_PAGE.replace(b"deferred 2", b"delayed 2"), None),
        (METRICS_PAGE.replace(b"deferred 2", b"deferred NaN"), None),
        (b"", None),
    ],
)
def test_requests_in_flight_are_read_from_the_metrics(page: bytes, expected: InFlight | None) -> None:
    assert read_load(Answer(200, page)) == expected


def test_a_refused_metrics_page_tells_nothing() -> None:
    assert read_load(Answer(501, METRICS_PAGE)) is None
    assert read_load(Answer(None)) is None


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "status",
                    "data",
                    "id",
                    "path",
                    "scale",
                    "aliases",
                    "usage",
                    "completion_tokens",
                    "results",
                    "embedding",
                    "error",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
bodies = st.binary(max_size=200) | json_data.map(lambda data: json.dumps(data).encode()) | st.just(b"[" * 100_000)


@given(
    probe=st.sampled_from([HEALTH, ADAPTERS, MODELS, METRICS, TOKEN, EMBEDDING, SCORE]),
    status=st.none() | st.integers(100, 599),
    body=bodies,
)
def test_no_answer_is_too_strange_to_be_judged(probe: Probe, status: int | None, body: bytes) -> None:
    verdict = judge(CASES["cpu"], probe, Answer(status, body))
    assert verdict.health in Health
    assert (verdict.detail == "") == (verdict.health is Health.OK)
    load = read_load(Answer(status, body))
    assert load is None or load.running + load.waiting >= 0
