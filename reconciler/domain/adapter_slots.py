"""What an engine makes room for when it starts, so that adapters can come and go while it serves: how many, how wide.

Both are coarse: what stays within them changes no launch digest and restarts nothing. vLLM and SGLang keep adapters in
host memory beyond those whose slots are on the card, and move them there for the requests that name them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST_COUNT = 8
"""Adapters that a start makes room for at least; beyond that the next power of two. Room takes nothing until one is
loaded; a rank-16 adapter of a 70B model then takes 0.4 GiB of host memory."""

WIDTHS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The widths of adapter slots that vLLM offers (config/lora.py)."""

USUAL_WIDTH = 16
"""vLLM's --max-lora-rank where no adapter's rank is known."""

BASE_SLOT = 1
"""Of SGLang's slots the model itself takes one: `--max-loras-per-batch` counts requests without an adapter as one more
adapter, and every buffer is made for that many (0.5.23, lora/mem_pool.py; its help says "include base-only request").
vLLM's `--max-loras` counts adapters alone."""

_MOST_DOUBLINGS = 4


def room_for(count: int) -> int:
    """Adapters that an engine started with so many has room for."""
    room = LEAST_COUNT
    while room < count:
        room *= 2
    return room


def gpu_slots(engine: Engine, count: int) -> int:
    """Slots that a launch makes on the GPU for so many adapters at once; sizing counts the same."""
    return count + BASE_SLOT if engine is Engine.SGLANG else count


def slot_rank(ranks: Iterable[int]) -> int:
    """The width of the slots for adapters of these ranks; the launch sets it, and sizing counts it."""
    widest = max(ranks, default=USUAL_WIDTH)
    return max(next((each for each in WIDTHS if each >= widest), WIDTHS[-1]), USUAL_WIDTH)


def larger_rooms(count: int) -> tuple[int, ...]:
    """What may have been started for more adapters than there are now, and does for these too."""
    room = room_for(count)
    return tuple(room << step for step in range(1, _MOST_DOUBLINGS + 1))


def wider_slots(width: int | None) -> tuple[int, ...]:
    """What may have been started for wider adapters, and does for these too."""
    return tuple(each for each in WIDTHS if each > (width or USUAL_WIDTH))
