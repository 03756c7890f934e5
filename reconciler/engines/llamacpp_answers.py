"""What llama-server is asked beyond OpenAI's API, and how its answers are read."""

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
ADAPTERS = Probe("GET", "/lora-adapters")

_PREFIXES = ("llamacpp:", "")
"""Of its metrics' names: the one it has, and none."""


def judge(declaration: Declaration, probe: Probe, answer: Answer) -> Verdict:
    """As for every engine; its health check also says in words that it is one."""
    if probe.path == HEALTH.path and answer.status == HTTPStatus.OK:
        if openai_answers.parse(answer.body).get("status") == "ok":
            return Verdict(Health.OK)
        return Verdict(Health.WRONG, "/health answers without a status: another program is on this port")
    return openai_answers.judge(declaration, probe, answer)


def read_load(answer: Answer) -> InFlight | None:
    """Requests that hold a slot and requests that wait for one, from the metrics page."""
    if answer.status != HTTPStatus.OK:
        return None
    running, waiting = (
        total(answer.body, [f"{prefix}requests_{name}" for prefix in _PREFIXES]) for name in ("processing", "deferred")
    )
    return None if running is None or waiting is None else InFlight(running, waiting)
