"""Headers of safetensors: what is read, and damage of every kind."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import WeightsError
from reconciler.weights.safetensors_header import FIRST_READ_BYTES, MOST_HEADER_BYTES, read_tensors
from reconciler.weights.tensor_runs import Tensor
from tests.weights.memory_files import one_file
from tests.weights.tensor_files import BITS, Content, safetensors, tensor_bytes, with_header

FILE = "some.safetensors"


def refusal(content: Content | bytes) -> str:
    with pytest.raises(WeightsError) as refused:
        read_tensors(one_file(content, FILE), FILE)
    return refused.value.message.removeprefix(f"the safetensors header of {FILE} is damaged: ")


def test_tensors_have_type_and_bytes() -> None:
    content = safetensors(
        {"a": ("BF16", (3, 5)), "b": ("F8_E4M3", (7,)), "empty": ("F32", (0, 4)), "half": ("F4", (6,))},
        metadata={"format": "pt"},
    )
    assert sorted(read_tensors(one_file(content, FILE), FILE), key=lambda each: each.name) == [
        Tensor("a", "bf16", 30),
        Tensor("b", "f8_e4m3", 7),
        Tensor("empty", "f32", 0),
        Tensor("half", "f4", 3),
    ]


def test_a_file_without_tensors_is_one() -> None:
    assert read_tensors(one_file(with_header(b"{}"), FILE), FILE) == ()


def test_only_the_header_is_read() -> None:
    files = one_file(safetensors({"a": ("BF16", (2**20, 2**20))}), FILE)
    read_tensors(files, FILE)
    assert files.reads == [(FILE, 0, FIRST_READ_BYTES)]
    long = {f"tensor.{at:06d}": ("U8", (1,)) for at in range(5_000)}
    files = one_file(safetensors(long), FILE)
    assert len(read_tensors(files, FILE)) == 5_000
    (_, start, length) = files.reads[1]
    assert (start, start + length) == (FIRST_READ_BYTES, len(files.content[FILE].head))


def span(*offsets: Any, dtype: Any = "U8") -> dict[str, Any]:
    return {"dtype": dtype, "shape": [1], "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it ends behind the end of the file"),
        (b"\x01\0\0\0\0\0\0", "it ends behind the end of the file"),
        (b"\xff" * 16, "it ends behind the end of the file"),
        (Content((10**12).to_bytes(8, "little"), 10**9), "it ends behind the end of the file"),
        (
            Content((MOST_HEADER_BYTES + 1).to_bytes(8, "little"), 10**9),
            f"it would be {MOST_HEADER_BYTES + 1:,} bytes long; at most {MOST_HEADER_BYTES:,} are read",
        ),
        (with_header(json.dumps({"a": {}}).encode()), "tensor a has no type or no place"),
        (with_header(json.dumps({"a": 7}).encode()), "tensor a has no type or no place"),
        (with_header(json.dumps({"a": span(0, 1, dtype=7)}).encode(), 1), "tensor a has no type or no place"),
        (with_header(json.dumps({"a": span(0)}).encode(), 1), "tensor a has no type or no place"),
        (with_header(json.dumps({"a": span(False, True)}).encode(), 1), "tensor a has no type or no place"),
        (with_header(json.dumps({"a": span(0, 1.0)}).encode(), 1), "tensor a has no type or no place"),
        (with_header(json.dumps({"a": span(-1, 1)}).encode(), 2), "tensor a overlaps another or follows a hole"),
        (with_header(json.dumps({"a": span(0, -1)}).encode(), 2), "tensor a overlaps another or follows a hole"),
        (
            with_header(json.dumps({"a": span(0, 4), "b": span(2, 6)}).encode(), 6),
            "tensor b overlaps another or follows a hole",
        ),
        (
            with_header(json.dumps({"a": span(0, 4), "b": span(6, 8)}).encode(), 8),
            "tensor b overlaps another or follows a hole",
        ),
        (with_header(json.dumps({"a": span(0, 4)}).encode(), 9), "5 bytes follow its last tensor"),
    ],
)
def test_damage_is_named(content: Content | bytes, reason: str) -> None:
    assert refusal(content) == reason


def test_missing_weights_are_counted() -> None:
    whole = safetensors({"a": ("F32", (1000,))})
    assert refusal(Content(whole.head, whole.size - 1)) == (
        f"{FILE} is incomplete: 1 of 4,000 bytes of tensors are missing"
    )


@pytest.mark.parametrize(
    "header", [b"[]", b"hello", b"\xff\xfe", b'{"a":' * 5000, b'{"a": 1' + b"0" * 5000 + b"}", b""]
)
def test_a_header_that_is_no_json_object_is_named(header: bytes) -> None:
    assert refusal(with_header(header)).startswith(f"the safetensors header of {FILE} is ")


@given(st.dictionaries(st.text(max_size=8), st.tuples(st.sampled_from(sorted(BITS)), st.tuples(st.integers(0, 9)))))
def test_no_byte_is_lost(shapes: dict[str, tuple[str, tuple[int]]]) -> None:
    shapes.pop("__metadata__", None)
    found = read_tensors(one_file(safetensors(shapes), FILE), FILE)
    assert {each.name: each.bytes for each in found} == {name: tensor_bytes(shape) for name, shape in shapes.items()}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=10,
)
keys = st.sampled_from(["dtype", "shape", "data_offsets", "__metadata__"])
headers = st.dictionaries(st.text(max_size=3), json_values | st.dictionaries(keys, json_values), max_size=4)


@given(headers.map(json.dumps).map(str.encode) | st.binary(max_size=60), st.integers(0, 100))
def test_junk_is_read_or_refused_by_an_error_of_ours(header: bytes, data_bytes: int) -> None:
    with suppress(WeightsError):
        read_tensors(one_file(with_header(header, data_bytes), FILE), FILE)
