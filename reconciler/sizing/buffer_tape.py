"""How large one buffer must be for the results of a sequence of operations, as ggml's graph allocator lays them out.

A result is freed after the operation that reads it last; an operation that can work in place takes over what it reads
last when both are of one size; a new result goes into the smallest hole that holds it, else to the end
(llama.cpp b11434, ggml/src/ggml-alloc.c). Holes stay, so that the answer is more than the sum of what lives at once.
"""

from __future__ import annotations

from dataclasses import dataclass

ALIGNMENT = 128
"""Bytes that results are rounded up to (CUDA; CPUs round to 64, which no figure here can tell apart)."""


@dataclass(frozen=True, slots=True)
class _Operation:
    size: int
    """Of its result; 0 where it writes into memory that is not of this buffer."""
    reads: tuple[int, ...]
    in_place: bool
    first: bool
    """Allocated before all operations, as the inputs of a graph are."""
    kept: bool


class Tape:
    """Operations in the order in which they run; each result is known by its number."""

    __slots__ = ("_kept", "_operations")

    def __init__(self) -> None:
        self._operations: list[_Operation] = []
        self._kept: list[int] = []

    def take(self, size: int, *, kept: bool = False) -> int:
        """An input: there from the start, until its last reader unless `kept`."""
        return self._add(size, (), first=True, kept=kept)

    def put(self, size: int, *reads: int, in_place: bool = False) -> int:
        """A result of `size` bytes that reads others; in place in the first of them that it is the last to read."""
        return self._add(size, reads, in_place=in_place)

    def use(self, *reads: int) -> None:
        """An operation whose result lies elsewhere, such as in the cache."""
        self._add(0, reads)

    def keep(self, result: int) -> None:
        """Let a result stay until the end."""
        self._kept.append(result)

    def size(self) -> int:
        """Bytes of the buffer."""
        readers = [0] * len(self._operations)
        for operation in self._operations:
            for read in operation.reads:
                readers[read] += 1
        for kept in self._kept:
            readers[kept] += 1
        space = _Space()
        places: dict[int, tuple[int, int]] = {}
        for number, operation in enumerate(self._operations):
            if operation.first:
                places[number] = space.place(operation.size)
        for number, operation in enumerate(self._operations):
            if not operation.first and operation.size:
                places[number] = self._over(operation, readers, places) or space.place(operation.size)
            for read in operation.reads:
                readers[read] -= 1
                if not readers[read] and read in places and not self._operations[read].kept:
                    space.free(*places.pop(read))
        return space.largest

    def _add(self, size: int, reads: tuple[int, ...], *, in_place: bool = False, **how: bool) -> int:
        rounded = -(-size // ALIGNMENT) * ALIGNMENT
        made = _Operation(rounded, reads, in_place, how.get("first", False), how.get("kept", False))
        self._operations.append(made)
        return len(self._operations) - 1

    def _over(
        self, operation: _Operation, readers: list[int], places: dict[int, tuple[int, int]]
    ) -> tuple[int, int] | None:
        """The place of a result that is read here for the last time; it then belongs to the new one."""
        if not operation.in_place:
            return None
        for read in operation.reads:
            before = self._operations[read]
            if readers[read] == 1 and read in places and before.size == operation.size and not before.kept:
                return places.pop(read)
        return None


class _Space:
    """An endless buffer with holes, in the order of their offsets; the last one has no end."""

    __slots__ = ("_end", "_holes", "largest")

    def __init__(self) -> None:
        self._holes: list[tuple[int, int]] = []
        """Offset and size of each but the last."""
        self.largest = 0
        self._end = 0

    def place(self, size: int) -> tuple[int, int]:
        """Offset and size of a new place: in the smallest hole that is large enough, the last of equals."""
        fitting = [(hole, index) for index, (_, hole) in enumerate(self._holes) if hole >= size]
        if not fitting:
            offset, self._end = self._end, self._end + size
            self.largest = max(self.largest, self._end)
            return offset, size
        least = min(fitting)[0]
        index = max(index for hole, index in fitting if hole == least)
        offset, hole = self._holes[index]
        self._holes[index : index + 1] = [(offset + size, hole - size)] if hole > size else []
        return offset, size

    def free(self, offset: int, size: int) -> None:
        """Give a place back; holes that touch become one."""
        if not size:
            return
        holes = sorted([*self._holes, (offset, size)])
        merged: list[tuple[int, int]] = []
        for start, length in holes:
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        if merged and merged[-1][0] + merged[-1][1] == self._end:
            self._end = merged.pop()[0]
        self._holes = merged
