"""Bytes of the slots that an engine holds for adapters: as wide as the largest rank, whatever an adapter has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.sizing.holdings import Place
from reconciler.sizing.module import Part, Split
from reconciler.sizing.rank_bytes import shares

if TYPE_CHECKING:
    from reconciler.sizing.holdings import Holding
    from reconciler.sizing.rank_bytes import Ranks

LORA_BYTES = 2
"""lora_dtype follows the model, which is 16 bit wherever adapters are served."""


def slot_bytes(holding: Holding, ranks: Ranks, rank: int) -> int:
    """One slot beside a matrix, in one layer (vLLM 0.32, lora/layers).

    The first factor is whole on every rank and the second split with a column-parallel matrix; the other way round with
    a row-parallel one. Merged matrices have a pair for each part, experts one for each of gate, up and down.
    """
    module = holding.module
    if module.part in (Part.TOWER, Part.NORM) or holding.place is not Place.LAYERS or not module.quantized:
        return 0
    if module.split is Split.EXPERTS:
        inputs, width = module.inputs, -(-module.outputs[0] // ranks.expert_width)
        pairs = 3 if holding.gated else 2
        experts = -(-holding.experts // ranks.expert_ranks)
        return pairs * rank * (inputs + width) * experts * LORA_BYTES
    inputs, outputs = shares(module, ranks.tensor)
    return rank * (len(outputs) * inputs + sum(outputs)) * LORA_BYTES


def end_bytes(vocabulary: int, hidden: int, rank: int) -> int:
    """One slot beside the embedding or the head, where adapters reach it: whole on every rank."""
    return rank * (vocabulary + hidden) * LORA_BYTES
