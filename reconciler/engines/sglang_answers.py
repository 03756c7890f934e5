"""What SGLang is asked beyond OpenAI's API, and how its answers are read."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Task
from reconciler.engines import openai_answers
from reconciler.engines.base import Health, InFlight, Probe, Verdict
from reconciler.engines.prometheus import total

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer

HEALTH = Probe("GET", "/health")
METRICS = Probe("GET", "/metrics")
LOAD_ADAPTER, UNLOAD_ADAPTER = "/load_lora_adapter", "/unload_lora_adapter"

RUNNING = ("sglang:num_running_reqs", "sglang_num_running_reqs")
WAITING = ("sglang:num_queue_reqs", "sglang_num_queue_reqs")
GRAMMARS = ("sglang:num_grammar_queue_reqs", "sglang_num_grammar_queue_reqs")
"""Gauges, with an underscore for the colon where metrics go through Ray. `GRAMMARS` are requests whose grammar is still
compiled: they are in neither of the others. Versions before that queue was counted have no such gauge."""


def judge(declaration: Declaration, probe: Probe, answer: Answer) -> Verdict:
    """As for every engine; its health check says nothing but its status, and its scores come in a form of their own."""
    if probe.path == HEALTH.path and answer.status == HTTPStatus.OK:
        return Verdict(Health.OK)
    if probe.path == HEALTH.path and answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Verdict(Health.SILENT, "/health answers 503: it starts, drains, or makes no token")
    if declaration.task is Task.RERANK and answer.status == HTTPStatus.OK and _has_scores(answer.body):
        return Verdict(Health.OK)
    return openai_answers.judge(declaration, probe, answer)


def read_load(answer: Answer) -> InFlight | None:
    """Requests that are computed and requests that wait, over all its ranks."""
    if answer.status != HTTPStatus.OK:
        return None
    running, waiting = total(answer.body, RUNNING), total(answer.body, WAITING)
    if running is None or waiting is None:
        return None
    return InFlight(running, waiting + (total(answer.body, GRAMMARS) or 0))


def load_adapter(name: str, path: str) -> Probe:
    """Loads one from a directory on the node; loading it again under its name is refused."""
    return Probe("POST", LOAD_ADAPTER, {"lora_name": name, "lora_path": path})


def unload_adapter(name: str) -> Probe:
    """Takes one out."""
    return Probe("POST", UNLOAD_ADAPTER, {"lora_name": name})


def _has_scores(body: bytes) -> bool:
    """A list of `{score, index}`, the best first."""
    try:
        rows = json.loads(body)
    except (ValueError, RecursionError):
        return False
    first = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(first, dict) and isinstance(first.get("score"), int | float)
