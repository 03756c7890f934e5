"""What one GPU of a replica would hold, and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.sizing.estimate import Estimate


class FitVerdict(StrEnum):
    """Whether it fits: refused even at the lower bound, tight inside the band, unknown where too little is known."""

    FITS = "fits"
    TIGHT = "tight"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class MemoryReason(StrEnum):
    """The rule that speaks of it."""

    WEIGHTS = "memory/weights"
    REQUEST = "memory/request"
    POOL = "memory/pool"
    TIGHT = "memory/tight"
    HOST_RAM = "memory/host-ram"
    STARTUP_SLACK = "memory/startup-slack"
    SHARE = "memory/share"
    UNKNOWN = "memory/unknown"
    SLOTS = "context/slots"


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The fullest GPU of a replica, bytes; on CPUs the host RAM that `memory_gib` reserves."""

    total: int
    """What the engine sees."""
    usable: int
    """What weights, cache and overheads may use together."""
    reserves: int
    """What the engine takes, whatever it needs."""
    weights: Estimate
    activations: Estimate
    graphs: Estimate
    runtime: Estimate
    """Contexts, communicators, allocator's waste."""
    kv_one_request: int
    """Cache of one full-length request: blocks, windows and states of the model's own layers; 0 for encoders. Where an
    engine fills up groups of unlike layers (vLLM's hybrids) `needs` counts more."""
    kv_cache: Estimate
    """What is left for the cache; below zero where nothing is."""
    needs: Estimate
    """weights + one request + overheads: compare with `usable`."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One reason and its sentence; `certain` where even the lower bound says so."""

    reason: MemoryReason
    message: str
    certain: bool
    held: float | None = None
    """Of a cache that is short: requests of the length in question that it holds at once."""


@dataclass(frozen=True, slots=True)
class Sized:
    """What sizing knows of one way to run a model."""

    verdict: FitVerdict
    remarks: tuple[Remark, ...]
    per_gpu: Breakdown | None
    """None where it is not known."""
    kv_bytes_per_token: int | None = None
    """Of layers whose cache grows with every token, on the fullest GPU."""
    kv_tokens: int | None = None
    """Tokens the cache holds over all requests; None without a cache."""
    longest_request: int | None = None
    """Tokens of the longest request that fits, at most the trained length; 0 where none does."""
    concurrency: float | None = None
    """Full-length requests the cache holds at once."""
    basis: str = ""
    """Whence the overheads: engine, versions, class, family, how many starts observed."""
    doubts: tuple[str, ...] = ()
    """What widens the band: flags not counted, an unread version, figures assumed."""
