"""pydantic's errors → faults: one for each real mistake, at the place in the document that has to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reconciler.domain.finding import Severity
from reconciler.sources import wording
from reconciler.sources.document import REFUSED
from reconciler.sources.expectation import Refusal, expected
from reconciler.sources.fault import Fault, YamlRule, display, shown_key
from reconciler.sources.fields import advice, describe, meant, object_path
from reconciler.sources.scalars import BOOLEAN_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic import BaseModel, ValidationError

    from reconciler.domain.desired import Path
    from reconciler.sources.document import Document


# More than anybody reads of one file; it bounds the work that a hostile file can make.
FAULTS_LIMIT = 200


def faults_of(error: ValidationError, spec: type[BaseModel], document: Document) -> list[Fault]:
    """Everything that pydantic refused in a document, without what a finding covers already."""
    told = error.errors(include_input=False, include_url=False)[:FAULTS_LIMIT]
    errors = [_located(each, spec, document) for each in told]
    real = _without_noise(errors, spec, document)
    return list(dict.fromkeys(_fault(each, spec, document) for each in real))


def boolean_word_notes(document: Document) -> list[Fault]:
    """A note for each `no`, `off`, `yes` or `on` that a field took as text."""
    return [
        Fault(
            YamlRule.TYPE,
            f"{display(path)}: {word} is text here; many tools read it as {str(BOOLEAN_WORDS[word]).lower()}",
            f'put it in quotes to say so: "{word}"',
            *document.position(path),
            path,
            Severity.NOTE,
        )
        for path, word in document.boolean_words
    ]


def empty_value_faults(document: Document, told: Iterable[Fault]) -> list[Fault]:
    """A fault for each field that is written without a value, where no other says so.

    An optional field would take it for "not set" here and for "set to nothing" elsewhere; so it is neither.
    """
    covered = {fault.path for fault in told}
    empty = [path for path in _empty(document.value, ()) if path not in covered and not document.is_noise(path)]
    hint = "write one, or remove it"
    return [
        Fault(YamlRule.TYPE, f"{display(path)}: expected a value, found nothing", hint, *document.position(path), path)
        for path in empty
    ]


def _empty(value: Any, path: Path) -> Iterator[Path]:
    """Paths of all nulls; documents are at most 32 deep."""
    if value is None and path:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _empty(inner, (*path, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _empty(inner, (*path, index))


def _located(error: Mapping[str, Any], spec: type[BaseModel], document: Document) -> Refusal:
    loc = error["loc"]
    path, rest = document.find(loc[:-1] if error["type"] == "missing" else loc)
    if error["type"] == "missing":
        rest = (*rest, loc[-1])
    value = document.at(path)
    schema = object_path(spec, path)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    written = document.written_number(path) if number else None
    return Refusal(error["type"], error.get("ctx", {}), error["msg"], path, rest, schema, value, written)


def _without_noise(errors: Iterable[Refusal], spec: type[BaseModel], document: Document) -> Iterator[Refusal]:
    errors = list(errors)
    misspelt = {
        (error.path[:-1], meant(spec, error.schema[:-1], str(error.path[-1])))
        for error in errors
        if error.kind == "extra_forbidden"
    }
    for error in errors:
        if document.is_noise(error.path) or error.value is REFUSED:
            continue
        if error.kind == "missing" and (error.path in document.incomplete or (error.path, error.rest[-1]) in misspelt):
            continue
        # A mapping that stands where text was one choice: the errors inside it say what is wrong.
        if error.form is not None and error.kind == "string_type" and isinstance(error.value, dict):
            continue
        yield error


def _fault(error: Refusal, spec: type[BaseModel], document: Document) -> Fault:
    name = display(error.path)
    if error.kind == "missing":
        return _missing(error, spec, document)
    if error.kind == "extra_forbidden":
        key = shown_key(str(error.path[-1]), error.path[:-1])
        owner = display(error.path[:-1])
        message = f"{owner} has no field {key}" if owner else f"there is no field {key}"
        hint = advice(spec, error.schema[:-1], str(error.path[-1]))
        return Fault(YamlRule.UNKNOWN_FIELD, message, hint, *document.key_position(error.path), error.path)
    if error.is_key:
        wanted, advised = expected(error, error.path[-1])
        key = shown_key(str(error.path[-1]), error.path[:-1])
        message = f"{display(error.path[:-1])}: expected {wanted}, found {key}"
        return Fault(YamlRule.TYPE, message, advised, *document.key_position(error.path), error.path)
    wanted, advised = expected(error, error.value)
    found = wording.found(error.value, error.written, secret=error.secret)
    message = f"{name}: expected {wanted}, found {found}" if name else f"expected {wanted}, found {found}"
    return Fault(YamlRule.TYPE, message, advised, *document.position(error.path), error.path)


def _missing(error: Refusal, spec: type[BaseModel], document: Document) -> Fault:
    owner = display(error.path)
    place = document.position(error.path)
    field = error.rest[-1]
    if isinstance(field, int):
        return Fault(YamlRule.TYPE, f"{owner}: an item is missing at position {field + 1}", None, *place, error.path)
    message = f"{owner}: {field} is missing" if owner else f"{field} is missing"
    meaning = describe(spec, error.schema, field)
    hint = f"write {field}: …" + (f", {meaning}" if meaning else "")
    return Fault(YamlRule.TYPE, message, hint, *place, error.path)
