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
    """Default of `memory_share`; for llama.cpp 1; 0 where the engine works it out for each card (SGLang)."""
    windows: Windows
    block_tokens: int
    """Default block (page) size in tokens; llama.cpp's is what contexts are rounded up to."""
    graphs_inside: bool = True
    """Whether CUDA graphs are taken out of the share before the cache (vLLM from 0.21) or come on top of it."""
    refuses_short_pool: bool = True
    """Whether the engine itself refuses to start when one full request does not fit its cache."""
    known: bool = True
    batches_in_flight: int = 2
    """Batches whose tokens a window keeps besides itself (vLLM from 0.26, asynchronous scheduling; 1 before)."""
    states_per_request: int = 2
    """Recurrent states one request holds with a prefix cache (vLLM from 0.20; 1 before, when hybrids had none)."""
    tokens_by_request: bool = True
    """Whether the engine prints its cache size as full-length requests x length (vLLM from 0.21). Before, it printed
    blocks by group x block, which counts windows and states like full attention."""
    refuses_many_states: bool = False
    """Whether it refuses to serve more requests at once than its cache has blocks, where models keep states and CUDA
    graphs are on (vLLM from 0.16)."""
