"""What ComfyUI is asked, and how its answers are read: it has a queue of workflows instead of a model's API."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from reconciler.engines.base import Health, InFlight, Probe, Verdict
from reconciler.engines.openai_answers import error_message, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reconciler.engines.base import Answer

SYSTEM = Probe("GET", "/system_stats")
QUEUE = Probe("GET", "/queue")

_CPU = "cpu"


def judge(probe: Probe, answer: Answer) -> Verdict:
    """Silent until it answers; wrong when another program does, or when it computes on the CPU."""
    if answer.status is None:
        return Verdict(Health.SILENT, f"no answer to {probe.path}")
    if answer.status != HTTPStatus.OK:
        busy = answer.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)
        said = f"{probe.path} answers {answer.status}: {error_message(answer.body)}"
        return Verdict(Health.SILENT if busy else Health.WRONG, said)
    if probe.path == QUEUE.path:
        found = read_load(answer) is not None
        return Verdict(Health.OK) if found else Verdict(Health.WRONG, "/queue answers without a queue")
    return _judge_system(_rows(parse(answer.body), "devices"))


def read_load(answer: Answer) -> InFlight | None:
    """Workflows that run, of which there is one at a time, and those behind it."""
    if answer.status != HTTPStatus.OK:
        return None
    content = parse(answer.body)
    running, waiting = _rows(content, "queue_running"), _rows(content, "queue_pending")
    return None if running is None or waiting is None else InFlight(len(running), len(waiting))


def _judge_system(devices: Sequence[Any] | None) -> Verdict:
    """One GPU: without a driver it falls back to the CPU and goes on."""
    if devices is None:
        return Verdict(Health.WRONG, "/system_stats answers without devices: another program is on this port")
    kinds = [device.get("type") for device in devices if isinstance(device, dict)]
    if not kinds or all(kind == _CPU for kind in kinds):
        return Verdict(Health.WRONG, "/system_stats shows no GPU: it computes on the CPU")
    return Verdict(Health.OK)


def _rows(content: Any, key: str) -> Sequence[Any] | None:
    rows = content.get(key)
    return rows if isinstance(rows, list) else None
