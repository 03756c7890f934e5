"""Positions, what may be shown, and what a document says of its own holes."""

from __future__ import annotations

import pytest

from reconciler.sources.documents import parse

TEXT = """\
# a comment
name: llama
scaling:
  min: 2
"q": {a: [1, {b: x}], "é": 'y'}
empty:
list:
- one
-   two: 2
    three: 3
"""


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ((), (2, 1), (2, 1)),
        (("name",), (2, 7), (2, 1)),
        (("scaling",), (4, 3), (3, 1)),
        (("scaling", "min"), (4, 8), (4, 3)),
        (("q", "a"), (5, 10), (5, 7)),
        (("q", "a", 1, "b"), (5, 18), (5, 15)),
        (("q", "é"), (5, 28), (5, 23)),
        (("list", 0), (8, 3), (8, 3)),
        (("list", 1, "three"), (10, 12), (10, 5)),
    ],
)
def test_the_place_of_a_value_and_of_its_key(
    path: tuple[str | int, ...], value: tuple[int, int], key: tuple[int, int]
) -> None:
    document = parse(TEXT.encode())
    assert document.position(path) == value
    assert document.key_position(path) == key


def test_what_was_not_written_is_placed_at_what_surrounds_it() -> None:
    document = parse(TEXT.encode())
    assert document.position(("scaling", "max")) == document.position(("scaling",))
    assert document.position(("list", 7, "x")) == document.position(("list",))
    assert document.position(("nothing", "at", "all")) == (2, 1)


@pytest.mark.parametrize("data", [TEXT.encode(), b"\xef\xbb\xbf" + TEXT.encode(), TEXT.replace("\n", "\r\n").encode()])
def test_line_ends_and_a_byte_order_mark_move_nothing(data: bytes) -> None:
    assert parse(data).position(("q", "a", 1, "b")) == (5, 18)
    assert parse(data).value == parse(TEXT.encode()).value


def test_columns_count_characters() -> None:
    document = parse("{😀é: 1, b: 2}".encode())
    assert document.key_position(("b",)) == (1, 9)


def test_a_value_that_was_refused_covers_what_is_said_of_it() -> None:
    document = parse(b"a: {b: 010, c: 1}\nd: !x {e: 1}")
    assert document.is_noise(("a", "b"))
    assert not document.is_noise(("a", "c"))
    assert document.is_noise(("d", "e"))


def test_a_mapping_that_lost_a_key_is_known_to_be_incomplete() -> None:
    assert parse(b"a: {<<: {b: 1}, c: 2}").incomplete == {("a",)}
    assert parse(b"a: {b: 1, b: 2}").incomplete == frozenset(), "the field itself is there"


def test_numbers_are_known_as_they_were_written() -> None:
    document = parse(b"a: [1.10, 12e34]\nb:   -0.50  # x\n")
    assert document.written_number(("a", 0)) == "1.10"
    assert document.written_number(("a", 1)) == "12e34"
    assert document.written_number(("b",)) == "-0.50"


SECRET = "hf_canary"


@pytest.mark.parametrize(
    "text",
    [
        "env: {T: hf_canary}\n",
        "profiles:\n- env:\n    T: hf_canary\n    U: {secret: hf_canary}\n  args: []\n",
        "env:\n  T: |\n    x\n    hf_canary\n  U: 'a\n    hf_canary'\n",
        'profiles: [{"env": {"T": "hf_canary"}, "name": 010}]\n',
        "env: hf_canary\n",
        "env: [hf_canary, [hf_canary]]\n",
        "env: {T: 'hf_canary\n",
        "env:\n  T: hf_canary\n bad\n",
        "env:\n  T: @hf_canary\n",
        'env:\n  T: "hf_canary\nname: x\n',
        "- {env: {A: hf_canary, B: @}}\n",
        "a: @\nenv:\n  T: hf_canary\n",
        'a: "x\nenv:\n  T: hf_canary\n',
        "? {env: {A: hf_canary}}\n: 1\n",
        "env: &a {T: hf_canary}\n<<: {env: {T: hf_canary}}\n",
        "a: 1\na: {env: {T: hf_canary}}\n",
        "url: https://user:hf_canary@example.com/v1\n",
        "env:\n  A: 1\n  ? [hf_canary]\n  : hf_canary\n",
        "env: {T=hf_canary, 1=hf_canary, T=hf_canary}\n",
        "env:\n  'T: hf_canary': 1\n  12hf_canary: 1\n",
        "env: {T: *hf_canary, U: &hf_canary x, V: !hf_canary x}\n",
    ],
)
def test_no_secret_in_what_is_shown_or_said(text: str) -> None:
    document = parse(text.encode())
    assert SECRET not in document.shown_text()
    assert not [fault for fault in document.faults if SECRET in fault.message + (fault.hint or "")]


def test_what_is_shown_keeps_its_columns_and_all_else() -> None:
    text = "env: {T: hf_canary}  # why\nname: x\n"
    assert parse(text.encode()).shown_text() == "env: {T: *********}  # why\nname: x\n"
    plain = "name: 'a b'\nargs: [--x]\n"
    assert parse(plain.encode()).shown_text() == plain


def test_the_line_of_a_syntax_error_is_shown() -> None:
    assert parse(b"a: 1\nb: @x\nc: 2\n").shown_text() == "a: 1\nb: @x"
