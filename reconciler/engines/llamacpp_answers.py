"""What llama-server is asked beyond OpenAI's API, and how its answers are read."""

from __future__ import annotations

import json
from http import HTTPStatus
from math import isclose
from typing import TYPE_CHECKING, Any

from reconciler.engines import openai_answers
from reconciler.engines.base import Health, InFlight, Probe, Verdict
from reconciler.engines.prometheus import total

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reconciler.domain.declaration import Declaration
    from reconciler.engines.base import Answer, Paths

HEALTH = Probe("GET", "/health")
METRICS = Probe("GET", "/metrics")
ADAPTERS = Probe("GET", "/lora-adapters")

_SCALE_DIGITS = 1e-5
"""Relative: a scale goes out with six digits and comes back as a 32-bit float, 0.3 as 0.30000001."""

_SHOWN = 40
"""Characters of what stands where a scale should."""

_PREFIXES = ("llamacpp:", "")
"""Of its metrics' names: the one it has, and none."""


def judge(declaration: Declaration, probe: Probe, answer: Answer, paths: Paths | None = None) -> Verdict:
    """As for every engine; its health check also says in words that it is one.

    Its list of adapters is held against the declared ones: as many, in that order, from those files, at those scales.
    """
    if probe.path == HEALTH.path and answer.status == HTTPStatus.OK:
        if openai_answers.parse(answer.body).get("status") == "ok":
            return Verdict(Health.OK)
        return Verdict(Health.WRONG, "/health answers without a status: another program is on this port")
    if probe.path == ADAPTERS.path and answer.status == HTTPStatus.OK:
        faults = "; ".join(_adapter_faults(declaration, answer.body, paths))
        return Verdict(Health.WRONG, f"{probe.path} {faults}") if faults else Verdict(Health.OK)
    return openai_answers.judge(declaration, probe, answer)


def read_load(answer: Answer) -> InFlight | None:
    """Requests that hold a slot and requests that wait for one, from the metrics page."""
    if answer.status != HTTPStatus.OK:
        return None
    running, waiting = (
        total(answer.body, [f"{prefix}requests_{name}" for prefix in _PREFIXES]) for name in ("processing", "deferred")
    )
    return None if running is None or waiting is None else InFlight(running, waiting)


def _adapter_faults(declaration: Declaration, body: bytes, paths: Paths | None) -> Iterator[str]:
    """What is wrong with the list; it numbers adapters as they were declared, and has their paths and scales.

    Without paths, as of an engine that served before this agent began, only how many there are: whoever may send
    requests can set the scales of all of them (POST on the same path), and it is not ended for that.
    """
    rows, wanted = _rows(body), declaration.adapters
    if rows is None:
        yield "answers without a list"
        return
    if len(rows) != len(wanted):
        yield f"lists {len(rows)} adapters, and {len(wanted)} are declared"
        return
    if paths is None:
        return
    for number, (row, adapter) in enumerate(zip(rows, wanted, strict=True)):
        path, scale = row.get("path"), row.get("scale")
        if row.get("id") != number or path != paths.adapters.get(adapter.name):
            yield f"lists {path} as number {row.get('id')} where {adapter.name} is declared"
        declared = 1.0 if adapter.scale is None else adapter.scale
        if not _is_near(scale, declared):
            yield f"lists {adapter.name} at scale {str(scale)[:_SHOWN]}, and {declared:g} is declared"


def _is_near(told: object, declared: float) -> bool:
    """Whether a scale that an answer tells is the declared one; `true` is no number, and 10**400 has no float."""
    if isinstance(told, bool) or not isinstance(told, int | float):
        return False
    try:
        return isclose(told, declared, rel_tol=_SCALE_DIGITS, abs_tol=1e-6)
    except OverflowError:
        return False


def _rows(body: bytes) -> list[Mapping[str, Any]] | None:
    try:
        rows = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return rows if isinstance(rows, list) and all(isinstance(row, dict) for row in rows) else None
