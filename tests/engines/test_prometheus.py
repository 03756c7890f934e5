"""Figures out of metrics pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engines.prometheus import total

PAGE = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a {b}, c"} 2.0
vllm:num_requests_running{engine="1",model_name="a"} 1.0 1700000000000
vllm:num_requests_running_more 9
plain 3
exact 1e+01
broken{le="+Inf"} NaN
negative -1
"""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["vllm:num_requests_running"], 3),
        (["new_name", "vllm:num_requests_running"], 3),
        (["plain", "vllm:num_requests_running"], 3),
        (["exact"], 10),
        (["vllm:num_requests"], None),
        (["HELP"], None),
        (["broken"], None),
        (["negative"], None),
        ([], None),
    ],
)
def test_a_gauge_is_summed_over_its_labels(names: list[str], expected: int | None) -> None:
    assert total(PAGE, names) == expected


def test_line_ends_of_another_system_are_read() -> None:
    assert total(b"plain 3\r\nother 4\r\n", ["plain"]) == 3


def test_a_number_beyond_all_counting_is_none() -> None:
    assert total(b"plain 1e300\n", ["plain"]) is None
    assert total(b"plain 9999999999\n", ["plain"]) is None
    assert total(b"plain 1-2\n", ["plain"]) is None


@given(st.binary(max_size=300))
def test_no_page_is_too_strange(page: bytes) -> None:
    found = total(b"plain " + page, ["plain"])
    assert found is None or found >= 0
