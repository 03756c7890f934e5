"""One GPU of a class as sizing asks for it: the class as it is described, or a MIG slice worked out from its card."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reconciler.sizing.memory_ask import Card

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reconciler.domain.fleet_spec import GpuClass

SLICE = re.compile(r"^(?P<card>[^/]+)/\d+g\.(?P<size>\d+)gb(\+me)?$")
"""A MIG class: its card, and the GB that the profile is named after."""

_MIB = 2**20
_PARTS = 8
"""MIG cuts memory into eighths, or quarters where the card is small; profiles are named after them in rounded GB."""
_LOST_MIB = 200
"""What a slice lacks of its part of the card: 0.2 to 0.5 GiB in published `nvidia-smi mig -lgip` listings of A100 and
H100. The least is taken, so that no slice looks smaller than it is."""


def card(classes: Mapping[str, GpuClass], gpu_class: str) -> Card | None:
    """The memory of one GPU of this class; None where it is not known.

    A slice that the fleet describes has what it says there, any other its part of the card, of which an engine sees
    all that the driver reports.
    """
    found = classes.get(gpu_class)
    if found is not None:
        return Card(gpu_class, found.memory_mib * _MIB, found.engine_mib * _MIB)
    sliced = SLICE.match(gpu_class)
    whole = classes.get(sliced["card"]) if sliced else None
    if sliced is None or whole is None:
        return None
    parts = round(int(sliced["size"]) * 1024 * _PARTS / whole.memory_mib)
    memory_mib = whole.memory_mib * min(parts, _PARTS) // _PARTS - _LOST_MIB
    return Card(gpu_class, memory_mib * _MIB, memory_mib * _MIB) if parts else None
