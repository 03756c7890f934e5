"""SGLang's own share where none is written: the card less a reserve that follows the step's size and the width."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.sizing.memory_ask import Card, MemoryAsk

_MIB = 2**20
_TIERS = ((20, 2048, 8, 8), (35, 4096, 48, 160), (60, 4096, 32, 160), (160, 8192, 256, 512))
"""Below so many GiB: tokens of one step, largest graph, and that from width 4 on (srt/arg_groups/memory_hook.py)."""
_LARGEST = (16384, 512, 512)
_WIDE = 4
_LEAST_RESERVE_MIB, _LEAST_FROM_GIB = 10240, 60
"""On cards over 60 GiB at least 10 GiB stay free."""


def static_share(ask: MemoryAsk, card: Card) -> float:
    """The share of the card for weights and cache, to three places as the engine rounds it."""
    mib = card.memory_bytes // _MIB
    gib = mib / 1024
    tokens, small, wide = next((tier[1:] for tier in _TIERS if gib < tier[0]), _LARGEST)
    graph = wide if ask.tensor >= _WIDE else small
    reserve = 512 + 1.5 * max(ask.batch_tokens or tokens, 2048) + ask.tensor * ask.pipeline / 8 * 1024 + 2 * graph
    if gib > _LEAST_FROM_GIB:
        reserve = max(reserve, _LEAST_RESERVE_MIB)
    return round((mib - reserve) / mib, 3)
