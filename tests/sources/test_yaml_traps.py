"""Every trap of YAML that was measured, as bytes → what is read, or which rule refuses it and where."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from reconciler.sources.documents import parse

Row = tuple[str, bytes, Any]

READ: list[Row] = [
    ("norway is text", b"a: no", "no"),
    ("off is text", b"a: off", "off"),
    ("yes is text", b"a: yes", "yes"),
    ("On is text", b"a: On", "On"),
    ("only true and false are booleans", b"a: [true, False, TRUE]", [True, False, True]),
    ("y is text", b"a: [y, n, Y]", ["y", "n", "Y"]),
    ("nothing is null", b"a:", None),
    ("a tilde is null", b"a: [~, null, Null, NULL]", [None, None, None, None]),
    ("decimal", b"a: [0, -1, +2, 1234567890123456]", [0, -1, 2, 1234567890123456]),
    ("float", b"a: [1.5, .5, 1., 1e3, -2.5E-1]", [1.5, 0.5, 1.0, 1000.0, -0.25]),
    ("a date is text", b"a: 2024-01-01", "2024-01-01"),
    ("an impossible date is text", b"a: 2024-13-45", "2024-13-45"),
    ("a timestamp is text", b"a: 2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
    ("minutes and seconds are text", b"a: 12:30:45", "12:30:45"),
    ("a version with two dots is text", b"a: 1.10.0", "1.10.0"),
    ("a quoted number is text", b"a: ['4', \"010\", '1_000']", ["4", "010", "1_000"]),
    ("quoted words are text", b"a: ['no', \"null\", 'true', '~', '<<']", ["no", "null", "true", "~", "<<"]),
    ("a duration is text", b"a: [90s, 30m]", ["90s", "30m"]),
    ("the colon of a source, in a flow list", b"a: [hf:org/x@1, file:/x, a::b]", ["hf:org/x@1", "file:/x", "a::b"]),
    ("the colon of a source, in a flow mapping", b"{a: {b: https://x.y/z, c: 1}}", {"b": "https://x.y/z", "c": 1}),
    ("the colon of a source, on a line after its bracket", b"a: [\n  hf:org/x,\n  1]", ["hf:org/x", 1]),
    ("json", b'{"a":[1,{"b":"x:y","c":"\\/"}]}', [1, {"b": "x:y", "c": "/"}]),
    ("json indented by tabs", b'{\n\t"a": [\n\t\t1\n\t]\n}\n', [1]),
    ("a byte order mark", b"\xef\xbb\xbfa: 1", 1),
    ("carriage returns before line feeds", b"a:\r\n- 1\r\n- x\r\n", [1, "x"]),
    ("a document start and end", b"---\na: 1\n...\n", 1),
    ("characters beyond the first plane", "a: \U0001f600é".encode(), "\U0001f600é"),
    ("escapes of printable characters", b'a: "\\u263a\\t\\n\\x41"', "☺\t\nA"),
    ("block text", b"a: |\n  x\n  y\n", "x\ny\n"),
    ("folded text", b"a: >-\n  x\n  y\n", "x y"),
    ("quoted merge key is a field", b"a: {'<<': 1}", {"<<": 1}),
    ("an explicit key that is text", b"? a\n: 1", 1),
    ("depth 32", b"a: " + b"[" * 31 + b"]" * 31, None),
]

REFUSED: list[tuple[str, bytes, str, int, int]] = [
    ("a version directive turns norway back on", b"%YAML 1.1\n---\na: no", "yaml/directive", 1, 1),
    ("a directive of the right version", b"# x\n\n%YAML 1.2\n---\na: no", "yaml/directive", 3, 1),
    ("a directive of an unknown version", b"%YAML 9.9\n---\na: no", "yaml/directive", 1, 1),
    ("a tag directive", b"%TAG ! tag:x,2000:\n---\na: 1", "yaml/directive", 1, 1),
    ("an unknown directive", b"%FOO bar\n---\na: 1", "yaml/directive", 1, 1),
    ("010 is 8 or 10", b"a: 010", "yaml/type", 1, 4),
    ("08 is 8 or text", b"a: 08", "yaml/type", 1, 4),
    ("-007", b"a: -007", "yaml/type", 1, 4),
    ("0o10", b"a: 0o10", "yaml/type", 1, 4),
    ("0x1F", b"b: 1\na: 0x1F", "yaml/type", 2, 4),
    ("a long hexadecimal", b"a: 0x" + b"f" * 64, "yaml/type", 1, 4),
    ("0b11", b"a: 0b11", "yaml/type", 1, 4),
    ("1_000", b"a: [1_000]", "yaml/type", 1, 5),
    ("1_000.5", b"a: 1_000.5", "yaml/type", 1, 4),
    ("a number that is infinite", b"a: 1e999999", "yaml/type", 1, 4),
    ("infinity", b"a: -.inf", "yaml/type", 1, 4),
    ("not a number", b"a: .NaN", "yaml/type", 1, 4),
    ("nineteen digits", b"a: 1234567890123456789", "yaml/type", 1, 4),
    ("five thousand digits", b"a: " + b"9" * 5000, "yaml/type", 1, 4),
    ("a tag that fails to construct", b"a: !!int x", "yaml/tag", 1, 4),
    ("a tag that agrees", b"a: !!float 1.5", "yaml/tag", 1, 4),
    ("a tag that runs a command", b"a: !!python/object/apply:os.system [x]", "yaml/tag", 1, 4),
    ("a private tag", b"a: !foo bar", "yaml/tag", 1, 4),
    ("a lone exclamation mark", b"a: ! x", "yaml/tag", 1, 4),
    ("an undefined tag handle", b"a: !x!y z", "yaml/tag", 1, 4),
    ("a verbatim tag on a list", b"a: !<tag:x> [1]", "yaml/tag", 1, 4),
    ("a tag on a key", b"!!str a: 1", "yaml/tag", 1, 1),
    ("a duplicate key", b"a: 1\nb: 2\na: 3", "yaml/duplicate-key", 3, 1),
    ("a duplicate key, quoted", b"b: {c: 1, 'c': 2}", "yaml/duplicate-key", 1, 11),
    ("an anchor", b"a: &x 1", "yaml/alias", 1, 4),
    ("an alias", b"a: [&x 1, *x]", "yaml/alias", 1, 11),
    ("an alias bomb", b"a: &a [x]\nb: [*a,*a,*a]", "yaml/alias", 2, 5),
    ("a cycle", b"a: &a {b: *a}", "yaml/alias", 1, 11),
    ("an alias as a key", b"a: &x y\n*x : 1", "yaml/alias", 2, 1),
    ("text that begins with a star", b"a: *.gguf", "yaml/alias", 1, 4),
    ("text that begins with an ampersand", b"a: &&", "yaml/alias", 1, 4),
    ("a merge key", b"a: {<<: {b: 1}}", "yaml/alias", 1, 5),
    ("an empty file", b"", "yaml/empty", 1, 1),
    ("only spaces", b"  \n\n", "yaml/empty", 1, 1),
    ("only comments", b"# name: llama\n# source: x\n", "yaml/empty", 1, 1),
    ("only a document start", b"---\n", "yaml/empty", 1, 1),
    ("only null", b"null", "yaml/empty", 1, 1),
    ("a list as a key", b"? [1, 2]\n: x", "yaml/type", 1, 3),
    ("a mapping as a key", b"a: {{b: 1}: 2}", "yaml/type", 1, 5),
    ("a null key", b"? \n: x", "yaml/type", 1, 2),
    ("a key that is a number", b"a: {1: x}", "yaml/type", 1, 5),
    ("a key that is a boolean", b"true: x", "yaml/type", 1, 1),
    ("half of a surrogate pair", b'a: "\\ud800"', "yaml/syntax", 1, 7),
    ("an escaped control character", b'a: "x\\x07"', "yaml/syntax", 1, 4),
    ("an escaped NUL in a key", b'"a\\0": 1', "yaml/syntax", 1, 1),
    ("a raw control character", b"a: x\nb: \x07", "yaml/syntax", 2, 4),
    ("a NUL", b"abc: \x00", "yaml/syntax", 1, 6),
    ("a DEL", b"a: x\x7f", "yaml/syntax", 1, 5),
    ("a line separator", "a: é\u2028b".encode(), "yaml/syntax", 1, 5),
    ("a next line", "a: \x85".encode(), "yaml/syntax", 1, 4),
    ("a byte order mark inside", "a: \ufeffx".encode(), "yaml/syntax", 1, 4),
    ("a lone carriage return hides a line", b"# x\rgpus: 8\na: 1", "yaml/syntax", 1, 4),
    ("a byte that is not UTF-8", b"a: 1\n\xc3\xa9: \xff", "yaml/syntax", 2, 4),
    ("a byte that is not UTF-8, after a byte order mark", b"\xef\xbb\xbfab\xfe", "yaml/syntax", 1, 3),
    ("a surrogate as bytes", b"a: \xed\xa0\x80", "yaml/syntax", 1, 4),
    ("UTF-16, little endian", "a: 1".encode("utf-16"), "yaml/syntax", 1, 1),
    ("UTF-16 without a mark", "a: 1".encode("utf-16-be"), "yaml/syntax", 1, 1),
    ("UTF-32", "a: 1".encode("utf-32"), "yaml/syntax", 1, 1),
    ("two documents", b"a: 1\n---\nb: 2", "yaml/syntax", 2, 1),
    ("a second document that is empty", b"a: 1\n---\n", "yaml/syntax", 2, 1),
    ("a second document with a directive", b"a: 1\n...\n%YAML 1.1\n---\nb: 2", "yaml/syntax", 3, 1),
    ("depth 33", b"[" * 33 + b"]" * 33, "yaml/too-deep", 1, 33),
    ("depth 1000", b"[" * 1000, "yaml/too-deep", 1, 33),
    ("depth 1000 of block lists", b"- " * 1000 + b"x", "yaml/too-deep", 1, 65),
    ("depth 1000 of mappings", b"{a: " * 1000, "yaml/too-deep", 1, 129),
    ("a tab that indents", b"a:\n\t- b", "yaml/syntax", 2, 1),
    ("a value that begins with @", b"a: @x", "yaml/syntax", 1, 4),
    ("a colon too many", b"a: b: c", "yaml/syntax", 1, 5),
    ("a quote that never ends", b"a: 1\nb: 'x\nc: 2\n", "yaml/syntax", 2, 4),
    ("a bracket that never ends", b"a: [1, 2\nb: 3\n", "yaml/syntax", 2, 2),
    ("a list on the line of its field", b"a: - b", "yaml/syntax", 1, 4),
    ("a line that does not line up", b"a: 1\n# x\n b: 2\n", "yaml/syntax", 3, 2),
    ("an unknown escape", b'a: "C:\\q"', "yaml/syntax", 1, 7),
    ("no space after the colon", b"a:1\nb: 2", "yaml/syntax", 2, 2),
    ("text after the document", b"a: 1\n...\nb: 2", "yaml/syntax", 3, 1),
]


@pytest.mark.parametrize(("data", "value"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_reads(data: bytes, value: object) -> None:
    document = parse(data)
    assert [fault.message for fault in document.faults] == []
    if value is not None or b"[" * 31 not in data:
        assert document.value["a"] == value
        assert type(document.value["a"]) is type(value)


@pytest.mark.parametrize(
    ("data", "rule", "line", "column"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_refuses(data: bytes, rule: str, line: int, column: int) -> None:
    faults = [(fault.rule, fault.line, fault.column) for fault in parse(data).faults]
    assert (rule, line, column) in faults, parse(data).faults
    assert all(fault.message for fault in parse(data).faults)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"{a: " * 60_000,
        b"- " * 120_000,
        b"? " * 120_000,
        b"&a " * 80_000,
        b"a: " + b"9" * 250_000,
        b"'" * 250_001,
        b'"\\"' * 80_000,
        b"[" + b"*a," * 80_000 + b"]",
        b"\n".join(b"%d: 1" % number for number in range(30_000)),
        b"a: {" + b"b: 1, " * 40_000 + b"}",
        b"!" * 250_000,
        b"[a:b" * 60_000,
        b"%" * 250_000,
    ],
    ids=lambda data: repr(data[:12]),
)
def test_hostile_files_are_refused_at_once(data: bytes) -> None:
    started = time.process_time()
    document = parse(data)
    assert document.faults
    # Of the processor's time, whatever else runs: any of these takes a second or so, a quadratic one minutes.
    assert time.process_time() - started < 10


def test_every_numeral_that_is_read_is_finite() -> None:
    document = parse(b"a: [1e308, -1e308, 1e-400, 999999999999999999]")
    assert document.faults == ()
    assert all(math.isfinite(number) for number in document.value["a"])


def test_one_run_tells_of_everything_but_what_follows_a_syntax_error() -> None:
    data = b"""\
%YAML 1.1
---
a: &x 010
b: *x
c: !!str y
a: 2
<<: {d: 1}
? [e]
: 0x1
f: "\\x07"
g: {1: 2}
h: @
i: *x
"""
    rules = [(fault.rule, fault.line) for fault in parse(data).faults]
    assert rules == [
        ("yaml/directive", 1),
        ("yaml/alias", 3),
        ("yaml/type", 3),
        ("yaml/alias", 4),
        ("yaml/tag", 5),
        ("yaml/duplicate-key", 6),
        ("yaml/alias", 7),
        ("yaml/type", 8),
        ("yaml/type", 9),
        ("yaml/syntax", 10),
        ("yaml/type", 11),
        ("yaml/syntax", 12),
    ]
