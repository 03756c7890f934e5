"""How vLLM lays caches out: groups of layers with one block table each, all drawing blocks from one pool.

From vLLM 0.32 `v1/core/kv_cache_utils.py`. Layers that need blocks alike are one group. Otherwise all pages are made
equal (more tokens to a block, or padding), and each kind of layer is cut into groups of as many layers as the rarest
kind has, or the commonest where that is less than 1.5 times as many; a block of the pool then holds one page for each
layer of a group. DeepSeek-V4 packs pages of unlike size side by side instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from reconciler.sizing.kv_layers import Held, LayerCache
from reconciler.sizing.stages import within

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ALMOST_EVEN = 1.5
"""Kinds whose numbers of layers differ by less are padded to the larger number (kv_cache_utils.py)."""


@dataclass(frozen=True, slots=True)
class Paged:
    """Layers that are alike, with the page that a block of the pool has for each of them."""

    cache: LayerCache
    block: int
    """Tokens."""
    page: int
    """Bytes, padding included."""
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share one block table; all need as many blocks as the first."""

    parts: tuple[Paged, ...]

    def bytes_in(self, stage: range) -> int:
        """Bytes of one block for those of its layers that lie on this stage."""
        return sum(part.page * within(part.layers, stage) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Layout:
    """Groups and whether they could be laid out as vLLM would; if not, pages lie one after another."""

    groups: tuple[Group, ...]
    certain: bool = True


def lay_out(caches: Mapping[LayerCache, tuple[int, ...]], block: int) -> Layout:
    """The groups of a whole model with blocks of `block` tokens."""
    pages = [
        Paged(cache, cache.block or block, cache.page(cache.block or block), layers) for cache, layers in caches.items()
    ]
    if not pages:
        return Layout(())
    if _alike(pages):
        return Layout((Group(tuple(pages)),))
    if any(cache.block for cache in caches):
        return Layout(tuple(_packed(pages)))
    equal = _of_one_size(pages)
    if equal is not None:
        return Layout(tuple(_cut(equal)))
    whole = _as_full(pages)
    if _alike(whole):
        return Layout((Group(tuple(whole)),))
    return Layout(tuple(Group((page,)) for page in pages), certain=False)


def ungrouped(caches: Mapping[LayerCache, tuple[int, ...]], block: int, stage: range) -> tuple[Paged, ...]:
    """Each kind of layer on this stage by itself; states are as large as a page of attention all the same."""
    pages = [
        Paged(
            cache,
            cache.block or block,
            cache.page(cache.block or block),
            tuple(each for each in layers if each in stage),
        )
        for cache, layers in caches.items()
    ]
    attention = max((page.page for page in pages if page.cache.held is not Held.STATE), default=0)
    return tuple(
        replace(page, page=max(page.page, attention)) if page.cache.held is Held.STATE else page for page in pages
    )


def without_windows(
    caches: Mapping[LayerCache, tuple[int, ...]], *, always: bool = False
) -> dict[LayerCache, tuple[int, ...]]:
    """Windows and chunks cached as full attention; vLLM does so only where some layers look at everything."""
    if not always and not any(cache.held is Held.EVERYTHING for cache in caches):
        return dict(caches)
    found: dict[LayerCache, tuple[int, ...]] = {}
    for cache, layers in caches.items():
        whole = replace(cache, held=Held.EVERYTHING, span=0) if cache.held in (Held.WINDOW, Held.CHUNK) else cache
        found[whole] = tuple(sorted(found.get(whole, ()) + layers))
    return found


def raised_block(caches: Iterable[LayerCache], block: int, *, latent: bool) -> int:
    """The block size once a page of attention is as large as a state (`platforms/interface.py`).

    A multiple of the block asked for; of 128 with latent attention, whose kernels want whole groups of blocks.
    """
    state = max((cache.cell for cache in caches if cache.held is Held.STATE), default=0)
    token = max((cache.cell for cache in caches if cache.held is not Held.STATE), default=0)
    if not state or not token:
        return block
    step = max(block, 128) if latent else block
    return max(block, step * -(-state // (step * token)))


def _alike(pages: Sequence[Paged]) -> bool:
    """Whether all need as many blocks for every length, so that one block table serves them."""
    first = pages[0]
    return all(
        page.block == first.block
        and page.cache.held is first.cache.held
        and page.cache.span == first.cache.span
        and (page.cache.held is not Held.STATE or page.page == first.page)
        for page in pages
    )


def _of_one_size(pages: Sequence[Paged]) -> list[Paged] | None:
    """Pages made as large as the largest; None where latent ones cannot be."""
    largest = max(page.page for page in pages)
    equal: list[Paged] = []
    for page in pages:
        if page.page == largest:
            equal.append(page)
        elif page.cache.held is not Held.STATE and page.page and largest % page.page == 0:
            equal.append(replace(page, block=page.block * (largest // page.page), page=largest))
        elif page.cache.latent:
            return None
        else:
            equal.append(replace(page, page=largest))
    return equal


def _as_full(pages: Sequence[Paged]) -> list[Paged]:
    """Windows as full attention: what vLLM does where a latent cache stands beside windows of another page size."""
    return [
        replace(page, cache=replace(page.cache, held=Held.EVERYTHING, span=0))
        if page.cache.held is Held.WINDOW
        else page
        for page in pages
    ]


def _cut(pages: Sequence[Paged]) -> list[Group]:
    """Groups of as many layers each, interleaved so that pipeline stages hold equal parts of every group."""
    buckets: dict[tuple[Held, int, int, int], Paged] = {}
    for page in pages:
        key = (page.cache.held, page.cache.span, page.block, page.cache.cell)
        known = buckets.get(key)
        buckets[key] = page if known is None else replace(known, layers=tuple(sorted(known.layers + page.layers)))
    counts = [len(page.layers) for page in buckets.values()]
    size = max(counts) if max(counts) < min(counts) * ALMOST_EVEN else min(counts)
    groups: list[Group] = []
    for page in buckets.values():
        number = -(-len(page.layers) // size)
        groups.extend(Group((replace(page, layers=page.layers[index::number]),)) for index in range(number))
    return groups


def _packed(pages: Sequence[Paged]) -> list[Group]:
    """Pages of unlike size side by side in one block.

    Kinds that need blocks alike are one bucket. Where a bucket has as many layers of each page size, these repeat a
    pattern and may be cut into groups of whole repeats; the length of a group wastes the least, but no bucket of mixed
    sizes is cut.
    """
    buckets: list[list[Paged]] = []
    for page in pages:
        fitting = next((bucket for bucket in buckets if _alike([*bucket, page])), None)
        if fitting is None:
            buckets.append([page])
        else:
            fitting.append(page)
    sizes = [_by_page(bucket) for bucket in buckets]
    even = [len(set(each.values())) == 1 for each in sizes]
    whole = max(
        (max(each.values()) for each, flat in zip(sizes, even, strict=True) if flat and len(each) > 1), default=0
    )
    repeats = (
        _least_padding([max(each.values()) for each, flat in zip(sizes, even, strict=True) if flat], whole)
        if whole
        else 0
    )
    groups: list[Group] = []
    for bucket, each, flat in zip(buckets, sizes, even, strict=True):
        number = -(-max(each.values()) // repeats) if flat and repeats else 1
        groups.extend(
            Group(tuple(replace(page, layers=page.layers[index::number]) for page in bucket)) for index in range(number)
        )
    return groups


def _by_page(bucket: Sequence[Paged]) -> dict[int, int]:
    """Layers by page size."""
    found: dict[int, int] = {}
    for page in bucket:
        found[page.page] = found.get(page.page, 0) + len(page.layers)
    return found


def _least_padding(counts: Sequence[int], least: int) -> int:
    """The length from `least` on to whose multiples the counts are padded the least; of equals the largest."""
    lengths = range(max(1, least), max(*counts, least) + 1)
    return min(lengths, key=lambda length: (sum(-count % length for count in counts), -length))


def blocks_of(cache: LayerCache, block: int, tokens: int, in_flight: int, source: int) -> int:
    """Blocks that one request of this length takes in a group of such caches.

    Windows keep what is in flight besides, and one block more because they may begin inside one
    (`v1/kv_cache_interface.py`).
    """
    match cache.held:
        case Held.EVERYTHING:
            return -(-tokens // block)
        case Held.WINDOW:
            return -(-min(cache.span - 1 + in_flight, tokens) // block) + 1
        case Held.CHUNK:
            return -(-min(cache.span + in_flight, tokens) // block)
        case Held.STATE:
            return cache.states
        case Held.SOURCE:
            return -(-source // block)
        case _:
            assert_never(cache.held)
