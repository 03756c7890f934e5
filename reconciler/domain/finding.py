"""What the gate says: one finding a reason, each with its place and what would pass."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler.domain.base import FORMAT_VERSION, Frozen

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
    message: str
    hint: str | None = None
    """What to do about it."""
    file: str | None = None
    """Relative to the git root, else to the working directory."""
    line: int | None = None
    """From 1."""
    column: int | None = None
    """From 1, in characters."""
    model: str | None = None
    profile: str | None = None
    valid: tuple[int, ...] | None = None
    """For a GPU count: the counts that pass every rule on this inventory; [] where none does."""


class Summary(Frozen):
    """Counts over one run of the gate."""

    errors: int
    warnings: int
    notes: int
    models: int
    nodes: int
    seconds: float


class GateReport(Frozen):
    """The answer of the gate: `ok` says that no finding is an error."""

    format_version: str = FORMAT_VERSION
    ok: bool
    findings: tuple[Finding, ...]
    summary: Summary


def sort_key(finding: Finding) -> tuple[str, int, int, str, str]:
    """Order of findings in every output: by place, then rule, then text."""
    return (finding.file or "", finding.line or 0, finding.column or 0, finding.rule, finding.message)
