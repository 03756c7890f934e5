"""Faults → findings: the file's name, the model and the profile are added, and everything is kept until the end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reconciler.domain.base import NAME_PATTERN
from reconciler.domain.finding import Finding, Severity, sort_key
from reconciler.gate.secrets import redacted
from reconciler.sources.fault import Fault, YamlRule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.domain.consistency import Inconsistency
    from reconciler.domain.desired import Path, Where
    from reconciler.sources.document import Document
    from reconciler.sources.loaded import Position


class Report:
    """All findings of one load, and the documents that tell their places."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        """By file, as people name it."""
        self._findings: list[Finding] = []

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, by place."""
        return tuple(sorted(self._findings, key=sort_key))

    @property
    def has_error(self) -> bool:
        """Whether one of them is an error."""
        return any(finding.severity is Severity.ERROR for finding in self._findings)

    def add(self, file: str, fault: Fault, model: str | None = None) -> None:
        """Take one fault of a file."""
        self._findings.append(
            Finding(
                rule=fault.rule,
                severity=fault.severity,
                message=redacted(fault.message),
                hint=None if fault.hint is None else redacted(fault.hint),
                file=file,
                line=fault.line,
                column=fault.column,
                model=model,
                profile=self._profile(file, fault.path) if model is not None else None,
            )
        )

    def add_problems(self, file: str, problems: Iterable[Inconsistency], model: str | None = None) -> None:
        """Take what the fields of a file disagree on."""
        for problem in problems:
            place = self.place(file, problem.path, key=problem.rule == YamlRule.UNKNOWN_FIELD)
            self.add(file, Fault(problem.rule, problem.message, problem.hint, *place, problem.path), model)

    def place(self, file: str, path: Path, *, key: bool = False) -> Position:
        """Line and column of a value or of its key."""
        document = self.documents.get(file)
        if document is None or not document.readable:
            return (None, None)
        return document.key_position(path) if key else document.position(path)

    def locate(self, where: Where) -> Position:
        """Line and column of a place."""
        return self.place(where.file, where.path)

    def named(self, file: str, path: Path) -> str:
        """A place as text: `cluster/models/a.yaml:1`."""
        line, _ = self.place(file, path)
        return file if line is None else f"{file}:{line}"

    def _profile(self, file: str, path: Path) -> str | None:
        """The name of the profile that a path leads into."""
        match path:
            case ("profiles", int(index), *_):
                return self.text_at(file, ("profiles", index, "name"))
            case _:
                return None

    def text_at(self, file: str, path: Path) -> str | None:
        """The name that is written at a place, where one is."""
        document = self.documents.get(file)
        if document is None or document.find(path)[1] or document.value is None:
            return None
        value = document.at(path)
        return value if isinstance(value, str) and re.fullmatch(NAME_PATTERN, value) else None
