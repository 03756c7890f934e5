"""A place in words: `gpu-03 [4-7]`, or `demo-1 cpu` where no GPU is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.domain.placement import Placement

_SHORTEST_RUN = 3
"""Indices that are written as a run; `[0,1]` reads better than `[0-1]`."""


def place_text(placement: Placement) -> str:
    """Its nodes, each with the indices of its GPUs."""
    return " + ".join(f"{shard.node} {indices_text(gpu.index for gpu in shard.gpus)}" for shard in placement.shards)


def indices_text(indices: Iterable[int]) -> str:
    """`[4-7]`, `[0,1]`, `[0-3,6]`; `cpu` for none."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    if not runs:
        return "cpu"
    return f"[{','.join(_run_text(run) for run in runs)}]"


def _run_text(run: list[int]) -> str:
    return f"{run[0]}-{run[-1]}" if len(run) >= _SHORTEST_RUN else ",".join(str(index) for index in run)


def seconds_text(seconds: float) -> str:
    """`0.4 s`, `58 s`, `2 min 10 s`, `1 h 5 min`: what a person would say."""
    if seconds < 1:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes = whole // 3_600, whole % 3_600 // 60
    parts = [(hours, "h"), (minutes, "min"), (0 if hours else whole % 60, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def clock_text(seconds: float) -> str:
    """`0:32`, `12:05`, `1:00:00`: a running time."""
    whole = int(seconds)
    hours, minutes = whole // 3_600, whole % 3_600 // 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def age_text(seconds: float) -> str:
    """`just now`, `3 min ago`, `2 h ago`, `5 days ago`: how long ago, in its largest unit."""
    for size, unit in ((86_400, "day"), (3_600, "h"), (60, "min")):
        count = int(seconds // size)
        if count > 0:
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''} ago"
    return "just now"
