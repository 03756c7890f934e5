"""What is asked in OpenAI's API, and how answers of every kind are read."""

from __future__ import annotations

import io
import json
import wave
from typing import Any

import pytest

from reconciler.domain.model_spec import Task
from reconciler.engines.base import Answer, Health, Probe
from reconciler.engines.openai_answers import (
    MODELS,
    SILENCE,
    error_message,
    judge,
    question,
    read_adapters,
)
from tests.engines.vllm_cases import a_declaration

HEARD = question(a_declaration(task=Task.TRANSCRIBE))


def answer(status: int, content: Any) -> Answer:
    return Answer(status, json.dumps(content).encode())


def models(*rows: dict[str, Any]) -> Answer:
    return answer(200, {"object": "list", "data": list(rows)})


def test_a_transcription_is_asked_of_half_a_second_of_silence() -> None:
    assert HEARD.form == {"model": "llama-70b"}
    assert HEARD.upload == SILENCE
    with wave.open(io.BytesIO(SILENCE)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16_000, 1, 2)
        assert sound.getnframes() == 8_000
        assert set(sound.readframes(8_000)) == {0}


@pytest.mark.parametrize(
    ("content", "health"),
    [({"text": ""}, Health.OK), ({"text": "so"}, Health.OK), ({"text": None}, Health.WRONG), ({}, Health.WRONG)],
)
def test_silence_may_be_transcribed_as_nothing(content: Any, health: Health) -> None:
    assert judge(a_declaration(task=Task.TRANSCRIBE), HEARD, answer(200, content)).health is health


@pytest.mark.parametrize(
    ("rows", "detail"),
    [
        ([{"id": "llama-70b", "parent": None}], ""),
        ([{"id": "chat", "parent": None}, {"id": "llama-70b", "parent": None}], ""),  # vLLM: an entry for each name
        ([{"id": "chat", "aliases": ["llama-70b"]}], ""),  # llama.cpp: one entry
        ([{"id": "other"}, {"id": "llama-70b", "parent": "other"}], "/v1/models lists other, not llama-70b"),
        ([{"id": ["llama-70b"]}, {"id": None}], "/v1/models lists no model, not llama-70b"),
        (["llama-70b"], "/v1/models lists no model, not llama-70b"),
    ],
)
def test_the_models_own_name_is_looked_for_among_those_it_serves(rows: list[Any], detail: str) -> None:
    verdict = judge(a_declaration(), MODELS, models(*rows))
    assert (verdict.health, verdict.detail) == (Health.WRONG if detail else Health.OK, detail)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (models({"id": "m", "parent": None}), frozenset()),
        (models({"id": "m", "parent": None}, {"id": "sql", "parent": "m"}), frozenset({"sql"})),
        (models({"id": "m"}, {"id": 7, "parent": "m"}), frozenset()),
        (answer(200, {"data": "none"}), None),
        (answer(200, []), None),
        (answer(404, {"data": []}), None),
        (Answer(None), None),
    ],
)
def test_adapters_are_the_entries_with_a_parent(said: Answer, expected: frozenset[str] | None) -> None:
    assert read_adapters(said) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"error": {"message": "The model `x` does not exist."}}, "The model `x` does not exist."),
        ({"object": "error", "message": "too long"}, "too long"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body"]}]}, '{"detail": [{"loc": ["body"]}]}'),
        ({}, "{}"),
    ],
)
def test_the_message_of_an_error_is_found_in_every_form(content: Any, message: str) -> None:
    assert error_message(json.dumps(content).encode()) == message


def test_another_question_is_not_mistaken_for_a_score() -> None:
    verdict = judge(a_declaration(), Probe("GET", "/other"), answer(200, {"status": "ok"}))
    assert verdict.health is Health.WRONG
