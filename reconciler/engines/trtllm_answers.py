"""What trtllm-serve is asked beyond OpenAI's API, and how its answers are read."""

from __future__ import annotations

import json
import posixpath
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from reconciler.engines import openai_answers
from reconciler.engines.base import Health, InFlight, Probe, Verdict
from reconciler.engines.trtllm_arguments import names_itself

if TYPE_CHECKING:
    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer, Paths

HEALTH = Probe("GET", "/health")
METRICS = Probe("GET", "/metrics")


def judge(declaration: Declaration, probe: Probe, answer: Answer, paths: Paths | None = None) -> Verdict:
    """As for every engine; its health check says nothing but its status.

    A version that cannot be told its name lists one model, under the name of the directory it was started with
    (openai_server.py: `Path(model).name` where that is a directory). Without `paths` any one name is taken.
    """
    if probe.path == HEALTH.path and answer.status == HTTPStatus.OK:
        return Verdict(Health.OK)
    if probe.path == HEALTH.path and answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Verdict(Health.SILENT, "/health answers 503: the engine behind the HTTP server is dead")
    if probe == openai_answers.MODELS and answer.status == HTTPStatus.OK and not names_itself(declaration):
        return _judge_directory(openai_answers.parse(answer.body).get("data"), paths)
    return openai_answers.judge(declaration, probe, answer)


def read_load(answer: Answer) -> InFlight | None:
    """Requests in flight at the end of the last step that `/metrics` tells of; none when it ran no step since.

    It tells of each step once, when it is over. A step that takes longer than from one look to the next, while a prompt
    of many thousand tokens is read at once, looks like none in flight: so a drain waits longer (`trtllm.STOP`).
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


def _judge_directory(rows: Any, paths: Paths | None) -> Verdict:
    """Whether its list of models is that of an engine that was started with this directory."""
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], dict):
        return Verdict(Health.WRONG, f"{openai_answers.MODELS.path} does not list one model")
    name = rows[0].get("id")
    expected = None if paths is None else posixpath.basename(posixpath.normpath(paths.model))
    if expected is None or name == expected:
        return Verdict(Health.OK)
    return Verdict(Health.WRONG, f"{openai_answers.MODELS.path} lists {name}, not {expected}, its directory's name")


def _steps(body: bytes) -> list[dict[str, Any]] | None:
    """One object a step; None when it is no list of them."""
    try:
        rows = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return rows if isinstance(rows, list) and all(isinstance(row, dict) for row in rows) else None
