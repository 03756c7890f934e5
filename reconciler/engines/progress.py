"""How far the start of an engine is, as its log tells."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """How far a start is, in the usual order; an engine passes those it has."""

    STARTING = "starting processes"
    MEETING = "waiting for its other nodes"
    DOWNLOADING = "downloading"
    LOADING = "loading weights"
    COMPILING = "compiling"
    ALLOCATING = "allocating the KV cache"
    CAPTURING = "capturing graphs"
    WARMING = "warming up"
    OPENING = "opening slots"
    LOADED = "loaded"


@dataclass(frozen=True, slots=True)
class Progress:
    """What one line of the engine's log says of its start; every one that differs from the last is a step forward."""

    stage: Stage
    done: int | None = None
    """Of `total` in this stage; None where the line counts nothing."""
    total: int | None = None
    unit: str = ""
    """What is counted: shards, graphs."""

    @property
    def words(self) -> str | None:
        """`3 of 30 shards`; None where nothing is counted."""
        if self.done is None:
            return None
        counted = str(self.done) if self.total is None else f"{self.done} of {self.total}"
        return f"{counted} {self.unit}".rstrip()
