"""One file's bytes → the object it declares, or every fault in it. What files say together is the loader's."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from reconciler.domain.finding import Severity
from reconciler.sources.documents import parse
from reconciler.sources.fault import Fault, YamlRule
from reconciler.sources.hidden_secrets import hidden_secrets
from reconciler.sources.validation import FAULTS_LIMIT, boolean_word_notes, empty_value_faults, faults_of

if TYPE_CHECKING:
    from reconciler.domain.desired import Path
    from reconciler.sources.document import Document

Spec = TypeVar("Spec", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Reading(Generic[Spec]):
    """What one file amounts to: an object exactly where no fault is an error."""

    spec: Spec | None
    document: Document
    faults: tuple[Fault, ...]
    remainder: Spec | None = None
    """Where there is no object: what is left without the faulty parts, so that rules can find the rest of the reasons.
    Never to be acted on."""


def read(spec: type[Spec], data: bytes) -> Reading[Spec]:
    """Read one YAML file as the given type."""
    document = parse(data)
    if not document.readable:
        return Reading(None, document, _at_most(document.faults))
    value, remainder, refused = _validated(spec, document)
    faults = (*document.faults, *refused)
    faults = (*faults, *empty_value_faults(document, faults))
    if any(fault.severity is Severity.ERROR for fault in faults):
        return Reading(None, document, _at_most(faults), remainder)
    return Reading(value, document, _at_most(faults))


def _validated(spec: type[Spec], document: Document) -> tuple[Spec | None, Spec | None, list[Fault]]:
    """The object, what is left of it without its faulty parts, and the faults."""
    try:
        value = spec.model_validate(document.value)
    except ValidationError as error:
        cuts = {_cut(document.find(each["loc"])[0]) for each in error.errors(include_input=False, include_url=False)}
        remainder = _remainder(spec, document, cuts)
        hidden = hidden_secrets(document, cuts if remainder is not None else [()])
        return None, remainder, [*faults_of(error, spec, document), *hidden]
    return value, value, boolean_word_notes(document)


def _remainder(spec: type[Spec], document: Document, cuts: set[Path]) -> Spec | None:
    """The object without each faulty list item or top-level field; None when it is none without them."""
    kept = deepcopy(document.value)
    if () in cuts or not isinstance(kept, dict):
        return None
    for path in sorted(cuts, key=lambda path: (len(path), path[-1] if len(path) > 1 else 0), reverse=True):
        owner = kept
        for step in path[:-1]:
            owner = owner[step]
        del owner[path[-1]]
    try:
        return spec.model_validate(kept)
    except ValidationError:
        return None


def _cut(path: Path) -> Path:
    """The list item or the top-level field that a path lies in: less would leave an object of another meaning."""
    first_item = next((depth for depth, step in enumerate(path) if isinstance(step, int)), 0)
    return path[: first_item + 1]


def _at_most(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    if len(faults) <= FAULTS_LIMIT:
        return faults
    last = faults[FAULTS_LIMIT - 1]
    message = f"the file has more findings than {FAULTS_LIMIT}; the rest is not listed"
    cut = {fault.severity for fault in faults[FAULTS_LIMIT:]}
    severity = Severity.ERROR if Severity.ERROR in cut else Severity.NOTE
    return (*faults[:FAULTS_LIMIT], Fault(YamlRule.SYNTAX, message, None, last.line, last.column, severity=severity))
