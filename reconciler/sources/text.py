"""Bytes of one file → text that every reader sees alike, or why not.

Refused are bytes that are not UTF-8, and characters that do not show or that some readers take for a line break: with
them a reviewer sees another file than the parser, and line numbers differ between tools.
"""

from __future__ import annotations

import codecs
import re

from reconciler.sources.fault import Fault, YamlRule

# C0 except tab and line breaks, DEL, C1 (with NEL), U+2028 and U+2029, surrogates, the BOM inside the text, and the two
# non-characters at the end of the plane. A carriage return is fine only before a line feed.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]|\r(?!\n)")
_WIDE_BOMS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode(data: bytes) -> str | Fault:
    """Text of a file that people write: UTF-8, with LF or CRLF, every character visible."""
    text = decode_utf8(data)
    if isinstance(text, Fault):
        return text
    found = _REFUSED.search(text)
    if found is None:
        return text
    line, column = place(text, found.start())
    char = found.group()
    hint = "save the file with LF or CRLF line ends" if char == "\r" else "remove it"
    return Fault(YamlRule.SYNTAX, _refusal(char), hint, line, column)


def decode_utf8(data: bytes) -> str | Fault:
    """UTF-8 with or without a BOM; the BOM is dropped and counts in no column."""
    if data.startswith(_WIDE_BOMS) or 0 in data[:2]:
        return Fault(YamlRule.SYNTAX, "the file is UTF-16 or UTF-32", "save it as UTF-8", 1, 1)
    body = data.removeprefix(codecs.BOM_UTF8)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        before = body[: error.start].decode()
        line, column = place(before, len(before))
        message = f"byte 0x{body[error.start]:02x} is not UTF-8"
        return Fault(YamlRule.SYNTAX, message, "save the file as UTF-8", line, column)


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def unprintable(value: str) -> bool:
    """Whether a value, after its escapes were read, holds a character that `decode` would refuse."""
    return _REFUSED.search(value) is not None


def _refusal(char: str) -> str:
    match char:
        case "\r":
            return "a carriage return without a line feed"
        case "\u2028" | "\u2029" | "\x85":
            return f"U+{ord(char):04X}, which some readers take for a line break"
        case "\ufeff":
            return "a byte order mark inside the text"
        case _:
            return f"control character U+{ord(char):04X}"
