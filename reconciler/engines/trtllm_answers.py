"""What trtllm-serve is asked beyond OpenAI's API, and how its answers are read."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from reconciler.engines import openai_answers
from reconciler.engines.base import Health, InFlight, Probe, Verdict
from reconciler.engines.trtllm_arguments import names_itself

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer

HEALTH = Probe("GET", "/health")
METRICS = Probe("GET", "/metrics")


def judge(declaration: Declaration, probe: Probe, answer: Answer) -> Verdict:
    """As for every engine; its health check says nothing but its status.

    Of a version that cannot be told its name the list of models is only wanted to hold one.
    """
    if probe.path == HEALTH.path and answer.status == HTTPStatus.OK:
        return Verdict(Health.OK)
    if probe.path == HEALTH.path and answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Verdict(Health.SILENT, "/health answers 503: the engine behind the HTTP server is dead")
    if probe == openai_answers.MODELS and answer.status == HTTPStatus.OK and not names_itself(declaration):
        rows = openai_answers.parse(answer.body).get("data")
        if isinstance(rows, list) and len(rows) == 1:
            return Verdict(Health.OK)
        return Verdict(Health.WRONG, f"{probe.path} does not list one model")
    return openai_answers.judge(declaration, probe, answer)


def read_load(answer: Answer) -> InFlight | None:
    """Requests in flight at the end of the last step that `/metrics` tells of; none when it ran no step since.

    It tells of each step once. Between two looks a request that is computed takes many steps; a single one takes longer
    only while a prompt of many thousand tokens is read at once.
    """
    steps = _steps(answer.body) if answer.status == HTTPStatus.OK else None
    if steps is None:
        return None
    if not steps:
        return InFlight(0, 0)
    running, waiting = steps[-1].get("numActiveRequests"), steps[-1].get("numQueuedRequests", 0)
    if type(running) is not int or type(waiting) is not int or min(running, waiting) < 0:
        return None
    return InFlight(running, waiting)


def _steps(body: bytes) -> list[dict[str, Any]] | None:
    """One object a step; None when it is no list of them."""
    try:
        rows = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return rows if isinstance(rows, list) and all(isinstance(row, dict) for row in rows) else None
