"""The buffer that a sequence of results needs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reconciler.sizing.buffer_tape import ALIGNMENT, Tape

UNIT = 8 * ALIGNMENT


def test_a_result_is_freed_after_its_last_reader() -> None:
    tape = Tape()
    first = tape.put(UNIT)
    second = tape.put(UNIT, first)
    tape.use(tape.put(UNIT, second))
    assert tape.size() == 2 * UNIT


def test_a_result_takes_the_place_of_what_it_is_the_last_to_read() -> None:
    tape = Tape()
    tape.use(tape.put(UNIT, tape.put(UNIT), in_place=True))
    assert tape.size() == UNIT


def test_not_while_another_still_reads_it() -> None:
    tape = Tape()
    first = tape.put(UNIT)
    tape.use(tape.put(UNIT, first, in_place=True), first)
    assert tape.size() == 2 * UNIT


def test_a_hole_that_is_too_small_stays() -> None:
    tape = Tape()
    small, stays = tape.put(UNIT), tape.put(UNIT)
    tape.use(small)
    large = tape.put(2 * UNIT)
    tape.use(stays, large)
    assert tape.size() == 4 * UNIT


def test_the_smallest_hole_that_is_large_enough_is_filled() -> None:
    tape = Tape()
    wide, fence, narrow, end = tape.put(3 * UNIT), tape.put(UNIT), tape.put(UNIT), tape.put(UNIT)
    tape.use(wide, narrow)
    fits = tape.put(UNIT)
    rest = tape.put(3 * UNIT)
    tape.use(fence, end, fits, rest)
    assert tape.size() == 6 * UNIT


def test_inputs_are_there_from_the_start_and_unread_ones_to_the_end() -> None:
    tape = Tape()
    tape.put(UNIT)
    tape.take(UNIT)
    tape.take(UNIT, kept=True)
    assert tape.size() == 3 * UNIT


def test_a_kept_input_is_not_overwritten() -> None:
    tape = Tape()
    kept = tape.take(UNIT, kept=True)
    tape.use(tape.put(UNIT, kept, in_place=True))
    assert tape.size() == 2 * UNIT


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.booleans()), max_size=40))
def test_it_is_no_less_than_the_largest_result_and_no_more_than_all(steps: list[tuple[int, int, bool]]) -> None:
    tape, made, sizes = Tape(), list[int](), list[int]()
    for units, back, in_place in steps:
        reads = made[-back:] if back else []
        made.append(tape.put(units * UNIT, *reads, in_place=in_place))
        sizes.append(units * UNIT)
    assert max(sizes, default=0) <= tape.size() <= sum(sizes)
