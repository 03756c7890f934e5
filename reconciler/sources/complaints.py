"""What the YAML parser complains of → one sentence and what to do, in words for people who do not read its source."""

from __future__ import annotations

from typing import NamedTuple

from reconciler.sources.fault import Fault, YamlRule


class Complaint(NamedTuple):
    """The parser's own account; places are (line, column) from 1."""

    problem: str
    context: str
    problem_at: tuple[int, int] | None
    context_at: tuple[int, int] | None


class _Wording(NamedTuple):
    message: str
    hint: str | None
    at_context: bool = False
    """The place to mend is where the parser began, not where it gave up."""


# By a part of the parser's problem text, the first that matches; `{}` is the character at the place.
_WORDINGS = {
    "mapping values are not allowed": _Wording(
        "unexpected `:`", "put a value that holds `: ` in quotes, or line this field up with the ones above"
    ),
    "block sequence entries are not allowed": _Wording(
        "a list cannot begin on the line of its field", "put `- ` on the next line, or write [a, b]"
    ),
    "unexpected end of stream": _Wording("the quote that opens here is never closed", "close it", at_context=True),
    "unexpected document indicator": _Wording("the quote that opens here is never closed", "close it", at_context=True),
    "could not find expected ':'": _Wording("expected `name: value`", "write a space after the colon", at_context=True),
    "violates indentation": _Wording("a tab cannot indent", "use spaces"),
    "unknown escape character": _Wording(
        "a backslash in double quotes begins an escape, and this is none", "use single quotes"
    ),
    "invalid Unicode character": _Wording("this escape is no character", "write the character itself"),
    "did not find expected ',' or": _Wording(
        "a comma or the closing bracket is missing", "check the bracket that opens at {}"
    ),
    "did not find expected key": _Wording(
        "this line does not line up", "fields of one object begin in the same column"
    ),
    "did not find expected '-' indicator": _Wording(
        "this line does not line up with the list", "each item begins with `- ` in the same column"
    ),
    "did not find expected <document start>": _Wording(
        "this does not belong to the fields above", "one file holds one document: fields, each as `name: value`"
    ),
    "did not find expected node content": _Wording("a value is missing here", "write the value, or remove the comma"),
    "unexpected ':'": _Wording("unexpected `:`", "write a space after the colon, or put the value in quotes"),
}


def fault_of(complaint: Complaint, text: str) -> Fault:
    """The finding for what ended the parse of `text`. Aliases, anchors, tags and directives have rules of their own."""
    line, column = complaint.problem_at or complaint.context_at or (1, 1)
    own = _own_rule(complaint)
    if own is not None:
        rule, message, advice = own
        line, column = complaint.context_at or (line, column)
        return Fault(rule, message, advice, line, column)
    wording = _wording(complaint, _char(text, line, column))
    if wording.at_context and complaint.context_at is not None:
        line, column = complaint.context_at
    hint = wording.hint
    if hint is not None and "{}" in hint:
        opened = complaint.context_at or (line, column)
        hint = hint.replace("{}", f"line {opened[0]}, column {opened[1]}")
    return Fault(YamlRule.SYNTAX, wording.message, hint, line, column)


def _own_rule(complaint: Complaint) -> tuple[YamlRule, str, str] | None:
    if complaint.context in {"while scanning an alias", "while scanning an anchor"}:
        quote = "put text that begins with * or & in quotes"
        return YamlRule.ALIAS, "anchors and aliases are refused", quote
    if "tag" in complaint.context or "tag" in complaint.problem:
        return YamlRule.TAG, "tags are refused", "put text that begins with ! in quotes, or remove the tag"
    if "directive" in complaint.context or "directive" in complaint.problem:
        return YamlRule.DIRECTIVE, "directives are refused", "remove the line that begins with %"
    return None


def _wording(complaint: Complaint, char: str) -> _Wording:
    if "cannot start any token" in complaint.problem:
        if char == "\t":
            return _Wording("a tab cannot indent", "use spaces")
        return _Wording(f"a plain value cannot begin with {char}", "put it in quotes")
    for part, wording in _WORDINGS.items():
        if part in complaint.problem:
            return wording
    return _Wording(complaint.problem or "the file is not YAML", None)


def _char(text: str, line: int, column: int) -> str:
    lines = text.split("\n")
    return lines[line - 1][column - 1 : column] if line <= len(lines) else ""
