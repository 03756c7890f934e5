"""What vLLM is asked beyond OpenAI's API, and how its answers are read."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from reconciler.engines import openai_answers
from reconciler.engines.base import Health, InFlight, Probe, Verdict
from reconciler.engines.prometheus import total

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer

HEALTH = Probe("GET", "/health")
METRICS = Probe("GET", "/metrics")
LOAD_ADAPTER, UNLOAD_ADAPTER = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"

RUNNING = ("vllm:num_requests_running", "vllm_num_requests_running")
WAITING = ("vllm:num_requests_waiting", "vllm_num_requests_waiting", "vllm:num_requests_waiting_by_reason")
SWAPPED = ("vllm:num_requests_swapped", "vllm_num_requests_swapped")
"""Gauges by the names of every version known: with an underscore for the colon where metrics go through Ray; `swapped`
is the first engine's, whose requests moved to host memory were in neither of the others."""


def judge(declaration: Declaration, probe: Probe, answer: Answer) -> Verdict:
    """As for every engine; its health check says nothing but its status: 503 once the engine behind it is dead."""
    if probe.path == HEALTH.path and answer.status == HTTPStatus.OK:
        return Verdict(Health.OK)
    if probe.path == HEALTH.path and answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Verdict(Health.SILENT, "/health answers 503: the engine behind the API server is dead")
    return openai_answers.judge(declaration, probe, answer)


def read_load(answer: Answer) -> InFlight | None:
    """Requests that are computed and requests that wait, over all engines and served names."""
    if answer.status != HTTPStatus.OK:
        return None
    running, waiting = total(answer.body, RUNNING), total(answer.body, WAITING)
    if running is None or waiting is None:
        return None
    return InFlight(running, waiting + (total(answer.body, SWAPPED) or 0))


def load_adapter(name: str, path: str) -> Probe:
    """Loads one from a directory on the node; loading it again under its name is refused."""
    return Probe("POST", LOAD_ADAPTER, {"lora_name": name, "lora_path": path})


def unload_adapter(name: str) -> Probe:
    """Takes one out."""
    return Probe("POST", UNLOAD_ADAPTER, {"lora_name": name})
