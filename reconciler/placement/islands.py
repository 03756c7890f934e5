"""Which of a node's free GPUs a replica gets: those of one island, and the island that is broken into already.

An island is a set of GPUs that reach each other fast: over NVLink, else over one PCIe switch, else inside one NUMA
node (facts/engines.md section 6.3). vLLM turns its fast all-reduce off where only some pairs have NVLink.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.domain.observed import GpuLinks

    Gpu = tuple[int, str]
    """Index and UUID."""

LEVELS = ("nvlink", "switch", "numa")
"""Best first."""


def choose(free: Sequence[Gpu], links: Mapping[str, GpuLinks], count: int) -> tuple[int, tuple[Gpu, ...]]:
    """The best set of `count` of the free GPUs, given ascending by index and at least so many, and how good it is.

    0 is one NVLink island, 1 one switch, 2 one NUMA node, 3 none of them. One GPU is an island of its own, and where
    nothing is known of a node its GPUs are as good as any.
    """
    if count <= 1 or not any(uuid in links for _, uuid in free):
        return 0, _neighbours(_fullest(free, links, count), count)
    for level in range(len(LEVELS)):
        island = min(
            (each for each in _islands(free, links, level) if len(each) >= count), key=_by_size_and_index, default=None
        )
        if island is not None:
            # Inside an NVLink island two GPUs of one switch are still nearer than two of different sockets.
            return level, _neighbours(_narrowed(island, links, level + 1, count), count)
    return len(LEVELS), _neighbours(free, count)


def _fullest(free: Sequence[Gpu], links: Mapping[str, GpuLinks], count: int) -> Sequence[Gpu]:
    """For one GPU: those of the island with the fewest free, so that whole islands stay whole."""
    return _narrowed(free, links, 0, count) if links and count else free


def _narrowed(free: Sequence[Gpu], links: Mapping[str, GpuLinks], level: int, count: int) -> Sequence[Gpu]:
    """The smallest island inside this set that is still large enough, level by level."""
    for each in range(level, len(LEVELS)):
        fitting = [island for island in _islands(free, links, each) if len(island) >= count]
        free = min(fitting, key=_by_size_and_index, default=free)
    return free


def _islands(free: Sequence[Gpu], links: Mapping[str, GpuLinks], level: int) -> Iterator[list[Gpu]]:
    """The free GPUs by what they share on one level; those of which that is not known are in none."""
    members: defaultdict[object, list[Gpu]] = defaultdict(list)
    for gpu in free:
        known = links.get(gpu[1])
        shared = getattr(known, LEVELS[level]) if known is not None else None
        if shared is not None:
            members[shared].append(gpu)
    yield from members.values()


def _by_size_and_index(island: Sequence[Gpu]) -> tuple[int, Gpu]:
    return len(island), island[0]


def _neighbours(free: Sequence[Gpu], count: int) -> tuple[Gpu, ...]:
    """The lowest run of neighbouring indices that is long enough, else the lowest ones."""
    runs = (free[start : start + count] for start in range(len(free) - count + 1))
    return tuple(next((run for run in runs if not run or run[-1][0] - run[0][0] == count - 1), free[:count]))
