"""Cycles in a graph of names, each once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def cycles(edges: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Cycles that remain until each one found before is cut at its last step; each starts at its smallest name.

    A graph can have more cycles than anybody reads (exponentially many); these are at most one for each edge,
    and a graph without them has none. Shortest first for each starting name. Every name must be a key of `edges`.
    """
    remaining = {name: list(dict.fromkeys(following)) for name, following in edges.items()}
    _drop_ends(remaining)
    for start in sorted(remaining):
        while (cycle := _shortest(remaining, start)) is not None:
            yield cycle
            remaining[cycle[-1]].remove(start)


def _drop_ends(edges: dict[str, list[str]]) -> None:
    """Remove every name from which no cycle can be reached, so that a catalog without cycles costs one pass."""
    sources: dict[str, list[str]] = {name: [] for name in edges}
    for name, following in edges.items():
        for each in following:
            sources[each].append(name)
    open_ends = {name: len(following) for name, following in edges.items()}
    ends = deque(name for name, count in open_ends.items() if count == 0)
    while ends:
        name = ends.popleft()
        del edges[name]
        for source in sources[name]:
            open_ends[source] -= 1
            if open_ends[source] == 0:
                ends.append(source)
    for name, following in edges.items():
        edges[name] = [each for each in following if each in edges]


def _shortest(edges: Mapping[str, Sequence[str]], start: str) -> tuple[str, ...] | None:
    """The shortest way from `start` back to it over larger names only: smaller ones had their turn."""
    before: dict[str, str] = {}
    queue = deque([start])
    while queue:
        name = queue.popleft()
        for following in edges[name]:
            if following == start:
                return _path(before, start, name)
            if following > start and following not in before:
                before[following] = name
                queue.append(following)
    return None


def _path(before: Mapping[str, str], start: str, name: str) -> tuple[str, ...]:
    path = [name]
    while path[-1] != start:
        path.append(before[path[-1]])
    return tuple(reversed(path))
