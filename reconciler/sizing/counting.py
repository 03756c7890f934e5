"""How an engine and its version count memory: one frozen value that `engines` hands to sizing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.domain.model_spec import Engine


class Division(StrEnum):
    """What the engine makes of a GPU's memory."""

    SHARE_OF_TOTAL = "share of total"
    """vLLM: everything it holds stays below share x total; the cache takes what is left of that."""
    STATIC_SHARE = "static share"
    """SGLang: weights and cache together take share x free memory; activations and graphs live in the rest."""
    SHARE_OF_REST = "share of rest"
    """TensorRT-LLM: the cache takes a share of what weights and activations leave free."""
    AS_NEEDED = "as needed"
    """llama.cpp: weights, cache of all slots and compute buffers are allocated, and nothing else."""


class Windows(StrEnum):
    """How layers with a window are cached."""

    FULL = "full"
    """Like full attention."""
    BLOCKS = "blocks"
    """Blocks of the window and of what is in flight (vLLM's hybrid manager)."""
    POOL = "pool"
    """A pool of their own beside that of full layers (SGLang)."""
    CELLS = "cells"
    """Cells for window and batch, by slot (llama.cpp)."""


@dataclass(frozen=True, slots=True)
class CountingRules:
    """How one engine version counts. `known` is False where its rules are those of the nearest version read."""

    engine: Engine
    version: str
    division: Division
    share: float
    """Default of `memory_share`; for llama.cpp 1."""
    windows: Windows
    block_tokens: int
    """Default block (page) size in tokens; llama.cpp's is what contexts are rounded up to."""
    graphs_inside: bool = True
    """Whether CUDA graphs are taken out of the share before the cache (vLLM from 0.21) or come on top of it."""
    refuses_short_pool: bool = True
    """Whether the engine itself refuses to start when one full request does not fit its cache."""
    known: bool = True
