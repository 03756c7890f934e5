"""Node ranges: what they expand to, and what is wrong with the others."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.base import NAME_PATTERN
from reconciler.sources.ranges import NAMES_LIMIT, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-1", ["gpu-1"]),
        ("gpu.rack-1_a", ["gpu.rack-1_a"]),
        ("gpu-[1-3]", ["gpu-1", "gpu-2", "gpu-3"]),
        ("gpu-[01-03]", ["gpu-01", "gpu-02", "gpu-03"]),
        ("gpu-[08-11]", ["gpu-08", "gpu-09", "gpu-10", "gpu-11"]),
        ("gpu-[8-11]", ["gpu-8", "gpu-9", "gpu-10", "gpu-11"]),
        ("gpu-[098-101]", ["gpu-098", "gpu-099", "gpu-100", "gpu-101"]),
        ("gpu-[01-02,07]", ["gpu-01", "gpu-02", "gpu-07"]),
        ("gpu-[3, 1-2]", ["gpu-3", "gpu-1", "gpu-2"]),
        ("gpu-[0-1]", ["gpu-0", "gpu-1"]),
        ("gpu-[00-01]", ["gpu-00", "gpu-01"]),
        ("gpu-[7]", ["gpu-7"]),
        ("gpu-[5-5]", ["gpu-5"]),
        ("r[1-2]n[1-3]", ["r1n1", "r1n2", "r1n3", "r2n1", "r2n2", "r2n3"]),
        ("r[1-2]n", ["r1n", "r2n"]),
        ("[1-2]", ["1", "2"]),
    ],
)
def test_expands(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gpu-[16-01]", "runs backwards: 16 is after 01"),
        ("gpu-[1-016]", "pads 1 and 016 differently: write [001-016]"),
        ("gpu-[01-16", "has a [ without its partner"),
        ("gpu-01-16]", "has a ] without its partner"),
        ("gpu-[[1-2]]", "has a [ without its partner"),
        ("gpu-[]", "has empty brackets"),
        ("gpu-[ ]", "has empty brackets"),
        ("gpu-[1-]", "has '1-' between brackets, which is no number"),
        ("gpu-[-1]", "has '-1' between brackets"),
        ("gpu-[1,,2]", "has '' between brackets"),
        ("gpu-[a-f]", "has 'a-f' between brackets"),
        ("gpu-[01:16]", "write [01-16]"),
        ("gpu-[1-9:2]", "has '1-9:2' between brackets"),
        ("gpu-[1-10001]", "makes more than 10,000 names"),
        ("a[1-101]b[1-100]", "makes more than 10,000 names"),
        ("a[0-9]" * 30, "makes more than 10,000 names"),
        ("gpu-[1-999999999]", "makes more than 10,000 names"),
        ("gpu-[1-9999999999]", "between brackets"),
        (f"gpu-[1-{'9' * 5000}]", "between brackets"),
        ("gpu-1,gpu-2", "write one list item for each range"),
        ("gpu-[1-2,2]", "makes gpu-2 twice"),
        ("n[1-11]1[1-11]", "makes n1111 twice"),
        ("GPU-[1-2]", "makes 'GPU-1', which is no node name"),
        ("gpu [1-2]", "makes 'gpu 1', which is no node name"),
        ("gpu-[1-2]-", "makes 'gpu-1-', which is no node name"),
        (f"{'g' * 62}[1-2]{'g' * 3}", "which is no node name"),
        ("gpu-[\uff11-\uff12]", "between brackets"),
        ("gpu-1\n", "which is no node name"),
    ],
)
def test_refuses(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        expand(text)


def test_the_largest_range() -> None:
    assert len(expand(f"n[1-{NAMES_LIMIT}]")) == NAMES_LIMIT


@given(st.text(alphabet="ab0123456789-[],: \n", max_size=40))
def test_whatever_is_written_gives_distinct_names_or_a_sentence(text: str) -> None:
    try:
        names = expand(text)
    except ValueError:
        return
    assert 0 < len(set(names)) == len(names) <= NAMES_LIMIT
    assert all(re.fullmatch(NAME_PATTERN, name) and not name.endswith("\n") for name in names)
