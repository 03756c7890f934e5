"""What can be said of memory without a model's shape: only whether its weights alone are too big."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.shape import Unreadable
from reconciler.sizing.fit_remarks import gib
from reconciler.sizing.sized import FitVerdict, MemoryReason, Remark, Sized

if TYPE_CHECKING:
    from reconciler.domain.shape import Shape
    from reconciler.sizing.counting import CountingRules
    from reconciler.sizing.memory_ask import Card, MemoryAsk, Stored

_EVEN = 0.97
"""Loaded weights are at least this much of an even part of the files: some heads for drafts are left out."""


def size_unknown(
    shape: Shape | Unreadable | None, stored: Stored, ask: MemoryAsk, card: Card | None, rules: CountingRules
) -> Sized:
    """Unknown, or refused where an even part of the weights does not fit."""
    because = shape.because if isinstance(shape, Unreadable) else "the lock has no config of it"
    unknown = Remark(MemoryReason.UNKNOWN, f"what a GPU would hold is not known: {because}", certain=False)
    usable = (card.engine_bytes * (ask.share or rules.share or 1.0)) if card else (ask.host_bytes or 0)
    # Data-parallel ranks share experts, so the parts may be that small.
    part = int((stored.weight_bytes or 0) * _EVEN / max(1, ask.gpus, ask.tensor * ask.pipeline)) - ask.offload_bytes
    if part > usable > 0 and not ask.unsized:
        said = f"the weights alone take {gib(part)} of {gib(usable)} GiB a GPU"
        reason = MemoryReason.WEIGHTS if card else MemoryReason.HOST_RAM
        return Sized(FitVerdict.REFUSED, (Remark(reason, said, certain=True), unknown), None)
    return Sized(FitVerdict.UNKNOWN, (unknown,), None)
