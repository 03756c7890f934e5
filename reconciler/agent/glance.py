"""A bounded look at engines when no agent runs: whether they answer as the replicas they should be.

Only the readiness probes without a body are sent (llama.cpp: `/health`, the names it serves, its adapters): they cost
the engine nothing, and no request of a user waits behind them. So that `status` and `plan` stay quick, what has not
answered by the deadline counts as silent.
"""

from __future__ import annotations

import http.client
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reconciler.agent.engine_keys import engine_key
from reconciler.engines.base import Answer, Health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from reconciler.agent.records import ReplicaRecord
    from reconciler.domain.model_spec import Engine
    from reconciler.engines.base import EngineSupport

WITHIN = 0.4
"""Seconds for all of them together: a serving engine answers in milliseconds, between two tokens at the latest."""

MOST_BYTES = 2**20
"""Of an answer are read."""


def answering(
    records: Iterable[ReplicaRecord],
    support: Callable[[Engine], EngineSupport | None],
    secrets: Path,
    launches_of: Path,
    within: float = WITHIN,
) -> frozenset[str]:
    """Ids of the replicas whose engine answered well, after at most `within` seconds."""
    found: set[str] = set()

    def look(record: ReplicaRecord, engine: EngineSupport, url: str) -> None:
        if _answers(record, engine, url, within, engine_key(record.entry, engine, secrets, launches_of)):
            found.add(record.id)

    began = time.monotonic()
    looks = [
        threading.Thread(target=look, args=(record, engine, record.url), daemon=True)
        for record in records
        if record.url is not None and (engine := support(record.entry.declaration.engine)) is not None
    ]
    for each in looks:
        each.start()
    for each in looks:
        each.join(max(began + within - time.monotonic(), 0.0))
    return frozenset(found.copy())


def _answers(record: ReplicaRecord, engine: EngineSupport, url: str, within: float, key: str | None) -> bool:
    declaration = record.entry.declaration
    probes = [probe for probe in engine.readiness(declaration) if probe.method == "GET"]
    verdicts = (engine.judge(declaration, probe, _get(url, probe.path, within, key)) for probe in probes)
    return bool(probes) and all(verdict.health is Health.OK for verdict in verdicts)


def _get(url: str, path: str, within: float, key: str | None) -> Answer:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=within)
    try:
        connection.request("GET", path, headers={} if key is None else {"authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(MOST_BYTES))
    except (OSError, http.client.HTTPException):
        return Answer(None)
    finally:
        connection.close()
