"""One option of `fit` as the cells of a row: sizes in GiB, tokens, and the verdict with by how much."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reconciler.domain.model_spec import Engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reconciler.domain.fit import FitOption, PerGpu

NOTHING = "–"  # noqa: RUF001  # a dash that is no minus: sizes stand beside it
_KIBI = 1024
_OF_SIZE = frozenset({"memory/weights", "memory/request", "memory/tight"})
"""Rules whose message is the difference between two figures of the row; memory/host-ram is one on CPUs, memory/pool
with llama.cpp, which allocates the cache of every slot."""


def headings(options: Sequence[FitOption], context: int | None) -> tuple[str, ...]:
    """Names of the columns; llama.cpp gives each slot a cache of its own, and allocates all of them."""
    word, cache = ("slots", "KV, all slots") if by_slots(options) else ("requests", "KV, 1 request")
    at = f" at {tokens(context)}" if context else " at once"
    return ("GPUs", "weights", cache, "overhead", "needs", "usable", "longest request", word + at, "verdict")


def by_slots(options: Iterable[FitOption]) -> bool:
    """Whether a table tells of slots: where every row is llama.cpp's."""
    return {each.engine for each in options} == {Engine.LLAMACPP}


def cells(option: FitOption, decimals: int, *, slots: bool) -> tuple[str, ...]:
    """The cells of one option; what is not known is a dash. With `slots` the cache is that of all of them."""
    per = option.per_gpu_gib
    cache, needs = (per.kv_cache, per.reserves) if slots else (per.kv_one_request, per.needs)
    return (
        _count(option),
        _gib(per.weights, decimals),
        _gib(cache, decimals),
        _overhead(per, cache, needs, decimals),
        _gib(needs, decimals),
        _gib(per.usable, decimals),
        f"{option.longest_request:,}" if option.longest_request else NOTHING,
        NOTHING if option.concurrency is None else _requests(option.concurrency),
        verdict(option, decimals),
    )


def verdict(option: FitOption, decimals: int) -> str:
    """`fits, 30.9 GiB to spare`, `tight: 0.4 GiB to spare (±0.9)`, `refused: 4.1 GiB over`, `unknown: lock/missing`."""
    told = _told(option, decimals)
    return f"{told} (fewest GPUs)" if option.least else told


def _told(option: FitOption, decimals: int) -> str:
    per = option.per_gpu_gib
    why = ", ".join(option.reasons)
    # llama.cpp allocates what it takes, all slots together; the others take what they are given.
    needs = per.reserves if option.engine is Engine.LLAMACPP else per.needs
    if needs is None or per.usable is None:
        return f"{option.verdict}: {why}" if why else option.verdict
    spare = per.usable - needs
    size = f"{abs(spare):.{decimals}f} GiB {'to spare' if spare >= 0 else 'over'}"
    about = band(per, decimals)
    on_cpus, slots = option.gpu_class is None, option.engine is Engine.LLAMACPP
    further = {"memory/host-ram"} if on_cpus else set()
    further |= {"memory/pool"} if slots else set()
    by_size = (_OF_SIZE | further).issuperset(option.reasons)
    match option.verdict:
        case "fits":
            return f"fits, {size}"
        case "tight" if by_size:
            return f"tight: {size} ({about})" if about else f"tight: {size}"
        case "refused" if spare < 0 and by_size:
            return f"refused: {size}"
        case "tight" | "refused" | "unknown":
            return f"{option.verdict}: {why}"


def band(per: PerGpu, decimals: int) -> str:
    """How far the need may be off: `±0.9`, or `-0.5 +0.9` where the sides differ; nothing where it is exact."""
    if per.needs is None or per.needs_low is None or per.needs_high is None:
        return ""
    below, above = (f"{each:.{decimals}f}" for each in (per.needs - per.needs_low, per.needs_high - per.needs))
    if float(below) == float(above) == 0:
        return ""
    return f"±{above}" if below == above else f"-{below} +{above}"


def host_ram(option: FitOption) -> float | None:
    """GiB of host RAM that surely hold an option on CPUs, in tenths; None where it is not known."""
    per = option.per_gpu_gib
    if per.needs is None or per.needs_high is None or per.reserves is None:
        return None
    further_slots = max(per.reserves - per.needs, 0.0) if option.engine is Engine.LLAMACPP else 0.0
    return math.ceil((per.needs_high + further_slots) * 10) / 10


def tokens(count: int) -> str:
    """`32k` for a multiple of 1,024, else the number."""
    return f"{count // _KIBI:,}k" if count >= _KIBI and count % _KIBI == 0 else f"{count:,}"


def decimals_for(options: Iterable[FitOption]) -> int:
    """Decimals with which the largest need of a table has about three digits."""
    largest = max((each.per_gpu_gib.needs or 0.0 for each in options), default=0.0)
    return 1 if largest >= 10 else 2 if largest >= 1 else 3  # noqa: PLR2004  # GiB


def _count(option: FitOption) -> str:
    if option.gpu_class is None:
        return "CPU"
    return f"{option.nodes} x {option.gpus}" if option.nodes > 1 else str(option.gpus)


def _gib(size: float | None, decimals: int) -> str:
    return NOTHING if size is None else f"{size:.{decimals}f}"


def _overhead(per: PerGpu, cache: float | None, needs: float | None, decimals: int) -> str:
    """All that is needed besides weights and cache, so that the row adds up, with the band of the whole."""
    if needs is None or per.weights is None or cache is None:
        return NOTHING
    return f"{max(needs - per.weights - cache, 0.0):.{decimals}f} {band(per, decimals)}".rstrip()


def _requests(count: float) -> str:
    return f"{count:,.0f}" if count >= 100 or count == int(count) else f"{count:.1f}"  # noqa: PLR2004  # three digits
