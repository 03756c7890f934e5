"""Questions in OpenAI's API that show an engine is ready, and how its answers are read; the same for every engine.

Ready is: it lists the model under its name, and answers one request of the kind the model is there for. An open port
or a health check says neither: vLLM with a shape that its kernels do not take is healthy until the first token.
"""

from __future__ import annotations

import json
import struct
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from reconciler.domain.model_spec import Task
from reconciler.engines.base import Health, Probe, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer

MODELS = Probe("GET", "/v1/models")
COMPLETIONS, EMBEDDINGS, RERANK = "/v1/completions", "/v1/embeddings", "/v1/rerank"
TRANSCRIPTIONS = "/v1/audio/transcriptions"

_MESSAGE_CHARACTERS = 200
"""Of an engine's error message are kept: a line or two of a terminal."""

_SAMPLES_A_SECOND = 16_000
"""What speech models are trained on: nothing has to be resampled."""


def _silence(seconds: float = 0.5) -> bytes:
    """A WAV file of silence, 16 bit and mono; half a second is more than the shortest input a speech model takes."""
    data = bytes(2 * int(_SAMPLES_A_SECOND * seconds))
    kind = struct.pack("<HHIIHH", 1, 1, _SAMPLES_A_SECOND, 2 * _SAMPLES_A_SECOND, 2, 16)
    sizes = (struct.pack("<I", size) for size in (36 + len(data), len(kind), len(data)))
    return b"RIFF%bWAVEfmt %b%bdata%b%b" % (next(sizes), next(sizes), kind, next(sizes), data)


SILENCE = _silence()


def question(declaration: Declaration) -> Probe:
    """The smallest request of the kind the model is there for."""
    model = declaration.model
    match declaration.task:
        case Task.EMBED:
            return Probe("POST", EMBEDDINGS, {"model": model, "input": "ready"})
        case Task.RERANK:
            return Probe("POST", RERANK, {"model": model, "query": "ready", "documents": ["ready"]})
        case Task.TRANSCRIBE:
            return Probe("POST", TRANSCRIPTIONS, form={"model": model}, upload=SILENCE)
        case Task.GENERATE | Task.IMAGE:
            # ignore_eos: a model that would rather say nothing still answers one token.
            body = {"model": model, "prompt": "ready", "max_tokens": 1, "temperature": 0, "ignore_eos": True}
            return Probe("POST", COMPLETIONS, body)


def judge(declaration: Declaration, probe: Probe, answer: Answer) -> Verdict:
    """Loading while it says so; wrong when another program, another model or no token answers."""
    if answer.status is None:
        return Verdict(Health.SILENT, f"no answer to {probe.path}")
    if answer.status == HTTPStatus.OK:
        return _judge_content(declaration, probe, parse(answer.body))
    said = error_message(answer.body)
    match answer.status:
        case HTTPStatus.SERVICE_UNAVAILABLE if "loading" in said.lower():
            return Verdict(Health.LOADING, "it is loading the model")
        case HTTPStatus.SERVICE_UNAVAILABLE | HTTPStatus.TOO_MANY_REQUESTS:
            return Verdict(Health.SILENT, f"{probe.path} answers {answer.status}: {said}")
        case _:
            return Verdict(Health.WRONG, f"{probe.path} answers {answer.status}: {said}")


def read_adapters(answer: Answer) -> frozenset[str] | None:
    """Names of the adapters in the list of models: the entries that name a parent. None when there is no list."""
    if answer.status != HTTPStatus.OK or not isinstance(parse(answer.body).get("data"), list):
        return None
    entries = _entries(parse(answer.body))
    return frozenset(each["id"] for each in entries if each.get("parent") and isinstance(each.get("id"), str))


def parse(body: bytes) -> Mapping[str, Any]:
    """The body as a JSON object; empty when it is anything else."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def error_message(body: bytes) -> str:
    """The message of an error answer, or what there is instead of one."""
    content = parse(body)
    error = content.get("error")
    message = error.get("message") if isinstance(error, dict) else content.get("message", content.get("detail"))
    text = message if isinstance(message, str) else body.decode("utf-8", errors="replace")
    return " ".join(text.split())[:_MESSAGE_CHARACTERS] or "nothing"


def _judge_content(declaration: Declaration, probe: Probe, content: Mapping[str, Any]) -> Verdict:
    match probe.path:
        case MODELS.path:
            names = _served_names(content)
            served = ", ".join(sorted(names)) or "no model"
            ok, instead = declaration.model in names, f"lists {served}, not {declaration.model}"
        case _ if probe.path == COMPLETIONS:
            ok, instead = _completed(content), "answers without a token"
        case _ if probe.path == EMBEDDINGS:
            ok, instead = bool(_first(content, "data").get("embedding")), "answers without an embedding"
        case _ if probe.path == TRANSCRIPTIONS:
            # the text itself may be empty: what was asked about is silence
            ok, instead = isinstance(content.get("text"), str), "answers without a text"
        case _:
            ok, instead = "relevance_score" in _first(content, "results"), "answers without a score"
    return Verdict(Health.OK) if ok else Verdict(Health.WRONG, f"{probe.path} {instead}")


def _served_names(content: Mapping[str, Any]) -> frozenset[str]:
    """All names of the model: vLLM has an entry for each, llama.cpp one entry with aliases. Adapters are none."""
    names: list[Any] = []
    for entry in _entries(content):
        aliases = entry.get("aliases")
        names += [] if entry.get("parent") else [entry.get("id"), *(aliases if isinstance(aliases, list) else ())]
    return frozenset(name for name in names if isinstance(name, str))


def _completed(content: Mapping[str, Any]) -> bool:
    """At least one token: its text may be empty, half of a character."""
    usage = content.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return isinstance(count, int) and count > 0


def _entries(content: Mapping[str, Any], key: str = "data") -> Iterator[Mapping[str, Any]]:
    rows = content.get(key)
    return (row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else iter(())


def _first(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return next(_entries(content, key), {})
