"""Scalars of `cluster/`: durations, names, counts, and canonical JSON."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from reconciler.domain.base import (
    Count,
    Duration,
    Flag,
    Name,
    Number,
    canonical_json,
    digest,
    format_duration,
    parse_duration,
)

plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.integers(min_value=0, max_value=999_999))
def test_a_duration_reads_back_as_it_was_written(seconds: int) -> None:
    duration = timedelta(seconds=seconds)

    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86_400), ("0s", 0), ("007s", 7)]
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (90, "90s"), (3600, "1h"), (86_400, "1d"), (90_000, "25h")],
)
def test_a_duration_is_written_in_the_largest_unit_that_divides_it(seconds: int, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    "wrong", ["90", "1.5h", "-1s", "1w", "1h30m", "", "s", " 1s", "1s\n", "1S", 90, 1.5, True, None, []], ids=repr
)
def test_anything_else_is_no_duration(wrong: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Duration).validate_python(wrong)


def test_a_plain_zero_is_a_duration() -> None:
    assert TypeAdapter(Duration).validate_python(0) == timedelta()


@pytest.mark.parametrize("name", ["a", "7", "llama-3.3-70b", "a_b", "a" * 63, "a.b"])
def test_names_are_short_lower_case_words(name: str) -> None:
    assert TypeAdapter(Name).validate_python(name) == name


@pytest.mark.parametrize(
    "wrong", ["", "A", "-a", "a-", ".a", "a.", "a/b", "a b", "ä", "a" * 64, "a\n", 7, None], ids=repr
)
def test_other_texts_are_no_names(wrong: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(wrong)


@pytest.mark.parametrize("wrong", [True, "4", 4.0, None, -1, "four", float("inf")], ids=repr)
def test_a_count_is_a_whole_number_and_nothing_that_looks_like_one(wrong: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Count).validate_python(wrong)


@pytest.mark.parametrize("wrong", [1, 0, "true", "yes", None], ids=repr)
def test_a_flag_is_true_or_false(wrong: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Flag).validate_python(wrong)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "1.5", True], ids=repr)
def test_a_number_is_finite(wrong: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Number).validate_python(wrong)


@given(plain_json)
def test_canonical_json_reads_back_and_does_not_depend_on_the_order_of_keys(value: object) -> None:
    text = canonical_json(value)

    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


def test_canonical_json_has_one_form() -> None:
    assert canonical_json({"b": 1, "a": ["é", None, True]}) == '{"a":["é",null,true],"b":1}'.encode()


def test_a_digest_is_sha256_of_it() -> None:
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
