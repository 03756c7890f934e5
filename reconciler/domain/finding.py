"""What the gate says: one finding a reason, each with its place and what would pass."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler.domain.base import FORMAT_VERSION, Frozen
from reconciler.domain.comparison import LedgerRow, ModelChange

if TYPE_CHECKING:
    from reconciler.domain.desired import Where


class Severity(StrEnum):
    """An error refuses the change; a warning does not; a note is for the record."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    """What one rule found, before its severity and its line are looked up."""

    where: Where | None
    message: str
    hint: str | None = None
    model: str | None = None
    profile: str | None = None
    valid: tuple[int, ...] | None = None
    severity: Severity | None = None
    """Only where a rule has more than one severity; else the rule's own."""


class Finding(Frozen):
    """One reason, as `validate --format json` prints it."""

    rule: str
    """Slug, such as heads/kv-split: `reconciler explain RULE` tells more."""
    severity: Severity
    """error, warning or note; an error refuses the change."""
    message: str
    """What is wrong, in one line."""
    hint: str | None = None
    """What to do about it."""
    file: str | None = None
    """Relative to the git root, else to the working directory."""
    line: int | None = None
    """From 1."""
    column: int | None = None
    """From 1, in characters."""
    model: str | None = None
    """Name of the model it is about; null for the fleet and its nodes."""
    profile: str | None = None
    """Name of the profile it is about."""
    valid: tuple[int, ...] | None = None
    """For a GPU count: the counts that pass every rule on this inventory; [] where none does."""
    caused: bool | None = None
    """With a base: whether the base did not have it yet. An error refuses either way."""


class Summary(Frozen):
    """Counts over one run of the gate."""

    errors: int
    """Findings that refuse the change."""
    warnings: int
    """Findings that do not."""
    notes: int
    """Findings for the record."""
    models: int
    """Models in the tree, broken ones included."""
    nodes: int
    """Nodes in the tree."""
    seconds: float
    """How long it took."""


class GateReport(Frozen):
    """The answer of the gate: `ok` says that no finding is an error."""

    format_version: str = FORMAT_VERSION
    """Of this answer: a higher minor adds fields."""
    ok: bool
    """Whether no finding is an error."""
    findings: tuple[Finding, ...]
    """All of them, by place."""
    summary: Summary
    """How many of each."""
    ledger: tuple[LedgerRow, ...] | None = None
    """With a base: GPUs by class, before and after."""
    changes: tuple[ModelChange, ...] | None = None
    """With a base: every model that differs, by name."""


def sort_key(finding: Finding) -> tuple[str, int, int, str, str]:
    """Order of findings in every output: by place, then rule, then text."""
    return (finding.file or "", finding.line or 0, finding.column or 0, finding.rule, finding.message)
