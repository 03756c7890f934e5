"""Where a problem stands in the file: rules name a place as the types have it, people may have written it shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reconciler.domain.desired import Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.domain.desired import Path

    Locate = Callable[[Where], tuple[int | None, int | None]]
    """Line and column of a place, from 1; of its nearest ancestor where it is not written."""

_NODE_STEPS = 2
"""`nodes` and a position lead to one node's entry."""


def place(where: Where, locate: Locate) -> tuple[int | None, int | None]:
    """Line and column of a place as it is written.

    What a node has may stand at the node or at its pool, and one GPU group may be written without the list.
    The spellings are tried in turn; one that is not written has the place of its parent.
    """
    for path in _spellings(where.path):
        found = locate(Where(where.file, path))
        if found != locate(Where(where.file, path[:-1])):
            return found
    return locate(where)


def _spellings(path: Path) -> Iterator[Path]:
    if path[:1] != ("nodes",):
        return
    for each in (path, path[_NODE_STEPS:]):
        yield each
        yield _without_list(each)


def _without_list(path: Path) -> Path:
    """`gpus[0].class` as `gpus.class`."""
    return tuple(step for position, step in enumerate(path) if (path[position - 1 : position], step) != (("gpus",), 0))
