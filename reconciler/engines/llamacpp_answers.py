"""What llama-server is asked, and how its answers are read."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Task
from reconciler.engines.base import Health, InFlight, Probe, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer

HEALTH = Probe("GET", "/health")
MODELS = Probe("GET", "/v1/models")
METRICS = Probe("GET", "/metrics")

_GAUGE = re.compile(
    rb"^[\w:]*requests_(?P<name>processing|deferred)(?:\{[^}\n]*\})?[ \t]+(?P<value>\d{1,9}(?:\.\d+)?)\b", re.MULTILINE
)
"""A gauge whatever its prefix (`llamacpp:` now) and labels (none now)."""

_MESSAGE_CHARACTERS = 200
"""Of an engine's error message are kept: a line or two of a terminal."""


def question(declaration: Declaration) -> Probe:
    """The smallest request of the kind the model is there for."""
    model = declaration.model
    match declaration.task:
        case Task.EMBED:
            return Probe("POST", "/v1/embeddings", {"model": model, "input": "ready"})
        case Task.RERANK:
            return Probe("POST", "/v1/rerank", {"model": model, "query": "ready", "documents": ["ready"]})
        case Task.GENERATE | Task.TRANSCRIBE | Task.IMAGE:
            # ignore_eos: a model that would rather say nothing still answers one token.
            body = {"model": model, "prompt": "ready", "max_tokens": 1, "temperature": 0, "ignore_eos": True}
            return Probe("POST", "/v1/completions", body)


def judge(declaration: Declaration, probe: Probe, answer: Answer) -> Verdict:
    """Loading while it says so; wrong when another program, another model or no token answers."""
    if answer.status is None:
        return Verdict(Health.SILENT, f"no answer to {probe.path}")
    said = _error(answer.body)
    match answer.status:
        case HTTPStatus.OK:
            return _judge_content(declaration, probe, _parse(answer.body))
        case HTTPStatus.SERVICE_UNAVAILABLE if "loading" in said.lower():
            return Verdict(Health.LOADING, "it is loading the model")
        case HTTPStatus.SERVICE_UNAVAILABLE | HTTPStatus.TOO_MANY_REQUESTS:
            return Verdict(Health.SILENT, f"{probe.path} answers {answer.status}: {said}")
        case _:
            return Verdict(Health.WRONG, f"{probe.path} answers {answer.status}: {said}")


def read_load(answer: Answer) -> InFlight | None:
    """Requests that hold a slot and requests that wait for one, from the metrics page."""
    if answer.status != HTTPStatus.OK:
        return None
    value_by_name = {found["name"]: int(float(found["value"])) for found in _GAUGE.finditer(answer.body)}
    if value_by_name.keys() != {b"processing", b"deferred"}:
        return None
    return InFlight(running=value_by_name[b"processing"], waiting=value_by_name[b"deferred"])


def _judge_content(declaration: Declaration, probe: Probe, content: Mapping[str, Any]) -> Verdict:
    match probe.path:
        case "/health":
            ok, instead = content.get("status") == "ok", "answers without a status: another program is on this port"
        case "/v1/models":
            names = _served_names(content)
            served = ", ".join(sorted(names)) or "no model"
            ok, instead = declaration.model in names, f"lists {served}, not {declaration.model}"
        case "/v1/completions":
            ok, instead = _completed(content), "answers without a token"
        case "/v1/embeddings":
            ok, instead = bool(_first(content, "data").get("embedding")), "answers without an embedding"
        case _:
            ok, instead = "relevance_score" in _first(content, "results"), "answers without a score"
    return Verdict(Health.OK) if ok else Verdict(Health.WRONG, f"{probe.path} {instead}")


def _served_names(content: Mapping[str, Any]) -> frozenset[str]:
    """All names of the one entry; its id is only the alphabetically first of the aliases."""
    entry = _first(content, "data")
    aliases = entry.get("aliases")
    names = [entry.get("id"), *(aliases if isinstance(aliases, list) else ())]
    return frozenset(name for name in names if isinstance(name, str))


def _completed(content: Mapping[str, Any]) -> bool:
    """At least one token: its text may be empty, half of a character."""
    usage = content.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return isinstance(count, int) and count > 0


def _first(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    rows = content.get(key)
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}


def _parse(body: bytes) -> Mapping[str, Any]:
    """The body as a JSON object; empty when it is anything else."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _error(body: bytes) -> str:
    """The message of an error answer, or what there is instead of one."""
    error = _parse(body).get("error")
    message = error.get("message") if isinstance(error, dict) else None
    text = message if isinstance(message, str) else body.decode("utf-8", errors="replace")
    return " ".join(text.split())[:_MESSAGE_CHARACTERS] or "nothing"
