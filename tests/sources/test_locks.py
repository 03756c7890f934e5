"""Locks: any valid JSON of the form is read, the rest is refused with its place."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from reconciler.sources.locks import read_lock
from tests.sources.trees import MODEL, loaded

ENTRY: dict[str, Any] = {
    "source": "hf:org/llama@6f6073b",
    "revision": "6f6073b",
    "format": "safetensors",
    "weight_bytes": 141107412992,
    "config": {"num_hidden_layers": 80, "rope": {"factor": 8.0}, "model_max_length": 10**30},
}


def a_lock(**fields: Any) -> bytes:
    return json.dumps({"format_version": "1.0", "sources": [ENTRY]} | fields).encode()


def test_a_lock_is_read_as_it_is() -> None:
    lock = read_lock(a_lock()).spec
    assert lock is not None
    assert lock.sources[0].config == {"num_hidden_layers": 80, "rope": {"factor": 8.0}, "model_max_length": 1e30}
    assert lock.find(ENTRY["source"]) is lock.sources[0]


@pytest.mark.parametrize(
    "data",
    [
        a_lock(),
        b"\xef\xbb\xbf" + a_lock(),
        json.dumps({"sources": []}, indent="\t").encode(),
        a_lock(format_version="1.7", unknown={"x": [1]}),
        '{"sources": [], "note": "line\u2028separator \U0001f600"}'.encode(),
        b'{"sources": [], "note": "\\ud83d\\ude00 \\u0000"}',
        b'{"sources": [], "deep": ' + b"[" * 31 + b"]" * 31 + b"}",
        b'{"sources": [], "text": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[ \\" {{{{{{{{{{{{{{{{{"}',
    ],
)
def test_any_valid_json_is_read(data: bytes) -> None:
    reading = read_lock(data)
    assert reading.faults == ()
    assert reading.spec is not None


def test_a_missing_format_version_reads_as_the_first() -> None:
    lock = read_lock(b'{"sources": []}').spec
    assert lock is not None
    assert lock.format_version == "1.0"


@pytest.mark.parametrize(
    ("data", "rule", "place", "fragment"),
    [
        (b"", "yaml/empty", (1, 1), "the file is empty"),
        (b" \n", "yaml/empty", (1, 1), "the file is empty"),
        (b'{"sources": [}', "yaml/syntax", (1, 14), "not JSON: Expecting value"),
        (b'{"sources": []}\n{}', "yaml/syntax", (2, 1), "not JSON: Extra data"),
        (b'{"sources": [], "a": 1,\n "a": 2}', "yaml/duplicate-key", (2, 2), "a is written twice; first on line 1"),
        (b'{"sources": [], "a": "\\ud800"}', "yaml/syntax", (1, 25), ""),
        (b'{"sources": [], "a": "\xff"}', "yaml/syntax", (1, 23), "byte 0xff is not UTF-8"),
        ('{"sources": []}'.encode("utf-16"), "yaml/syntax", (1, 1), "UTF-16"),
        (b'{"sources": [], "a":\n' + b"[" * 32 + b"]" * 32 + b"}", "yaml/too-deep", (2, 32), "more than 32 deep"),
        (b"[" * 200_000, "yaml/too-deep", (1, 33), "more than 32 deep"),
        (
            a_lock(format_version="2.0", sources=5),
            "yaml/type",
            (1, 20),
            "format 2.0; this version",
        ),
        (b'{"format_version": 1, "sources": []}', "yaml/type", (1, 20), "format_version: expected text"),
        (b"[]", "yaml/type", (1, 1), "expected fields, each as name: value, found a list"),
        (b"{}", "yaml/type", (1, 1), "sources is missing"),
        (
            b'{"sources": [{"source": "hf:a/b@c",\n "revision": 1, "format": "gguf"}]}',
            "yaml/type",
            (2, 14),
            "sources[0].revision: expected text, found the number 1",
        ),
        (
            b'{"sources": [{"source": "hf:a/b@c", "revision": "1", "format": "gg", "weight_bytes": -1}]}',
            "yaml/type",
            (1, 64),
            "sources[0].format: expected safetensors, gguf, peft or other",
        ),
        (
            b'{"sources": [{"source": "x", "revision": "1", "format": "gguf"}]}',
            "yaml/type",
            (1, 25),
            "sources[0].source: expected hf:ORG/NAME@REVISION",
        ),
    ],
)
def test_refuses(data: bytes, rule: str, place: tuple[int, int], fragment: str) -> None:
    reading = read_lock(data)
    assert reading.spec is None
    first = reading.faults[0]
    assert (first.rule, (first.line, first.column)) == (rule, place)
    assert fragment in first.message
    assert first.hint


def test_a_newer_lock_says_what_to_do() -> None:
    reading = read_lock(a_lock(format_version="3.1"))
    assert [fault.hint for fault in reading.faults] == ["upgrade reconciler"]


def test_a_finding_about_a_lock_is_about_its_model() -> None:
    result = loaded(model=MODEL, lock="{")
    assert [(each.file, each.model) for each in result.findings] == [("cluster/locks/llama.json", "llama")]
    assert result.desired is None
    assert [model.name for model in result.partial.models] == ["llama"]


@pytest.mark.parametrize("data", [b'"\\"' * 80_000, b'{"a' * 80_000, b'["' * 120_000, b'{"a":{"a":1,"a":2},' * 12_000])
def test_hostile_locks_are_refused_at_once(data: bytes) -> None:
    started = time.perf_counter()
    assert read_lock(data).faults
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "1e999", "1" * 5000])
def test_numbers_of_published_configs_that_json_has_no_word_for_are_read(number: str) -> None:
    entry = f'{{"source": "hf:a/b@c", "revision": "c", "format": "other", "config": {{"limit": [0.0, {number}]}}}}'
    reading = read_lock(f'{{"sources": [{entry}]}}'.encode())
    assert reading.faults == ()
    assert reading.spec is not None
    assert reading.spec.sources[0].config is not None
    assert abs(reading.spec.sources[0].config["limit"][1]) == float("inf")
