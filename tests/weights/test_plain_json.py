"""JSON that a lock can hold: it is read back from a lock as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.lock import Lock, LockedSource, WeightFormat
from reconciler.errors import WeightsError
from reconciler.sources.locks import read_lock
from reconciler.weights.lock_writer import lock_text
from reconciler.weights.plain_json import DEEPEST, read_object

texts = st.text(st.characters(codec="utf-8"), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**19), 10**19) | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(texts, values, max_size=4))
def test_a_config_comes_back_out_of_a_lock_as_it_went_in(config: dict[str, Any]) -> None:
    plain = read_object(json.dumps(config).encode(), "config.json")
    source = LockedSource(source="hf:a/b", revision="x", format=WeightFormat.OTHER, config=plain)
    reading = read_lock(lock_text(Lock(sources=(source,))).encode())
    assert not reading.faults
    assert reading.spec is not None
    assert reading.spec.sources[0].config == plain


def test_numbers_that_json_has_not_are_text_and_long_ones_are_floats() -> None:
    text = '{"a": Infinity, "b": [-Infinity, NaN], "c": 1e999, "d": 1000000000000000019884624838656, "e": null, "f": 1}'
    assert read_object(text.encode(), "f") == {
        "a": "inf",
        "b": ["-inf", "nan"],
        "c": "inf",
        "d": 1e30,
        "e": None,
        "f": 1,
    }


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[]", "is not a JSON object"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 100_000, "is nested too deep"),
        (b'{"a":' * (DEEPEST + 1) + b"1" + b"}" * (DEEPEST + 1), f"is nested more than {DEEPEST} deep"),
        (b'{"\\ud800": 1}', "has an escape that is half of a surrogate pair"),
        (b'{"a": ["\\udfff"]}', "has an escape that is half of a surrogate pair"),
    ],
)
def test_what_a_lock_cannot_hold_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(WeightsError) as refused:
        read_object(data, "config.json")
    assert refused.value.message == f"config.json {reason}"


def test_an_integer_of_thousands_of_digits_is_an_error_of_ours() -> None:
    with pytest.raises(WeightsError, match=r"^f is not JSON: Exceeds the limit"):
        read_object(b'{"a": ' + b"1" * 5000 + b"}", "f")
    assert read_object(b'{"a": ' + b"1" * 4000 + b"}", "f") == {"a": "inf"}
