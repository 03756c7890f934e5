"""One YAML document → plain values that remember where they stood. The only module that knows ruamel.

Values are built here from the parser's events, with a stack and no recursion: no loader runs, so no tag, alias or
merge key can construct anything, and a document of any depth ends at DEPTH_LIMIT.
Whatever is refused leaves a fault and a hole, and reading goes on, so that one run tells of everything in a file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ruamel.yaml.cyaml import CParser
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
)

from reconciler.sources.builder import Builder, TooDeep
from reconciler.sources.complaints import Complaint, fault_of
from reconciler.sources.document import Document, Place, Start
from reconciler.sources.fault import Fault, YamlRule, shorten
from reconciler.sources.masking import Broken
from reconciler.sources.text import decode

if TYPE_CHECKING:
    from reconciler.sources.document import Mark

# The C parser is of YAML 1.1 in one respect that shows: in `[...]` and `{...}` it takes the colon of `hf:org` for
# the end of a key and gives up. There such colons are swapped for a private character, and swapped back in the values;
# a colon after a quote or a bracket ends a key in YAML 1.2 too and stays.
_COLON_COMPLAINT = "found unexpected ':'"
_COLON = re.compile(r"(?<=[^\s\"'\[\]{},]):(?=[^\s\[\]{},])")
_STAND_IN = "\ue000"
# Saves a second pass where it sees one of these colons on the line of its bracket; only speed depends on it.
_LIKELY = re.compile(r"[\[{][^\n\[{]*[^\s\"'\[\]{},]:[^\s\[\]{},]")


def parse(data: bytes) -> Document:
    """Read the bytes of one file; whatever they are, the answer is a document, with its faults."""
    text = decode(data)
    if isinstance(text, Fault):
        return Document.unreadable((text,))
    body, faults = _without_directives(text)
    stands_in = _STAND_IN not in text
    reading = _Reading(swapped=stands_in and _LIKELY.search(body) is not None)
    try:
        reading.read(body)
        if stands_in and reading.ended is not None and _COLON_COMPLAINT in reading.ended.problem:
            reading = _Reading(swapped=True)
            reading.read(body)
    except Exception as error:  # noqa: BLE001  # foreign code met one bad document: the others must still be read
        reading.ended = Complaint(f"the parser gave up ({type(error).__name__})", "", None, None)
    return _document(reading, text, faults)


class _Reading:
    """One pass of the parser over a text."""

    def __init__(self, *, swapped: bool) -> None:
        self.builder = Builder(_STAND_IN if swapped else None)
        self.swapped = swapped
        """Colons that the parser would stumble over are swapped for the stand-in."""
        self.ended: Complaint | None = None
        """What ended it early, if something did."""
        self.end: Mark = Start()
        """Everything up to here is understood."""

    def read(self, text: str) -> None:
        """Feed all events to the builder, up to the first that ends the document."""
        parser = CParser(_COLON.sub(_STAND_IN, text) if self.swapped else text)
        documents = 0
        try:
            while parser.check_event():
                event = parser.get_event()
                if isinstance(event, DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        hint = "one file holds one document: split the file"
                        self.builder.fault(YamlRule.SYNTAX, event.start_mark, "a second document begins here", hint)
                        return
                _feed(self.builder, event)
                self.end = event.end_mark
        except TooDeep:
            pass  # its fault is in the builder
        except MarkedYAMLError as error:
            problem, context = error.problem or "", error.context or ""
            self.ended = Complaint(problem, context, _place(error.problem_mark), _place(error.context_mark))
        except YAMLError as error:
            self.ended = Complaint(str(error).partition("\n")[0], "", None, None)
        finally:
            parser.dispose()


def _feed(builder: Builder, event: Any) -> None:
    match event:
        case ScalarEvent():
            if event.anchor is not None or event.ctag is not None:
                _refuse_properties(builder, event)
            hole = event.ctag is not None
            builder.scalar(event.value, event.start_mark, event.end_mark, event.style, hole=hole)
        case CollectionEndEvent():
            builder.close()
        case CollectionStartEvent():
            if event.anchor is not None or event.ctag is not None:
                _refuse_properties(builder, event)
            is_mapping = isinstance(event, MappingStartEvent)
            builder.open(event.start_mark, is_mapping=is_mapping, hole=event.ctag is not None)
        case AliasEvent():
            builder.alias(event.anchor, event.start_mark, event.end_mark)
        case _:
            pass


def _refuse_properties(builder: Builder, event: Any) -> None:
    if event.anchor is not None:
        name = "an anchor" if builder.inside_env else f"anchor &{shorten(event.anchor)}"
        hint = "write the value where it is used; text that begins with & goes in quotes"
        builder.fault(YamlRule.ALIAS, event.start_mark, f"{name} is refused", hint)
    if event.ctag is not None:
        hint = "remove the tag; text that begins with ! goes in quotes"
        builder.fault(YamlRule.TAG, event.start_mark, "tags are refused", hint)


def _without_directives(text: str) -> tuple[str, tuple[Fault, ...]]:
    """The text with directives at its head made comments, so that the rest is read by YAML 1.2, and their faults."""
    if "%" not in text:
        return text, ()
    lines = text.split("\n")
    faults = []
    for index, line in enumerate(lines):
        if line.startswith("%"):
            message = f"directive {shorten(line.strip())} is refused"
            faults.append(Fault(YamlRule.DIRECTIVE, message, "remove this line", index + 1, 1))
            lines[index] = "#" + line[1:]
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return "\n".join(lines), tuple(faults)


def _document(reading: _Reading, text: str, faults: tuple[Fault, ...]) -> Document:
    builder, ended = reading.builder, reading.ended
    faults = (*faults, *builder.faults)
    broken = None
    if ended is not None:
        fault = fault_of(ended, text)
        faults = (*faults, fault)
        end = reading.end
        broken = Broken((fault.line or 1) - 1, end.line, end.column, inside_env=builder.inside_env)
    readable = ended is None and not builder.too_deep
    if readable and builder.value is None:
        hint = "write its fields; a model is removed by deleting its file"
        faults = (*faults, Fault(YamlRule.EMPTY, "the document is empty", hint, 1, 1))
        readable = False
    return Document(
        value=builder.value,
        readable=readable,
        root=builder.root or Place(Start(), Start()),
        faults=faults,
        refused=frozenset(builder.refused),
        incomplete=frozenset(builder.incomplete),
        boolean_words=tuple(builder.boolean_words),
        source=text,
        secret_spans=tuple(builder.secret_spans),
        broken=broken,
    )


def _place(mark: Any) -> tuple[int, int] | None:
    return None if mark is None else (mark.line + 1, mark.column + 1)
