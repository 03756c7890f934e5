"""What one tree says, as the gate, the planner and the views get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reconciler.domain.desired import Desired, Where
    from reconciler.domain.finding import Finding
    from reconciler.sources.document import Document

Position = tuple[int | None, int | None]
"""Line and column, from 1; (None, None) where there is neither."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one tree says."""

    desired: Desired | None
    """None as soon as one finding is an error: complete or nothing."""
    partial: Desired
    """Every object that could be read, for rules that find more; never for planning.

    Its fleet is called `unnamed` where cluster.yaml could not be read. Each model has a source or is external.
    """
    findings: tuple[Finding, ...]
    """Sorted by place."""
    broken: frozenset[str]
    """Stems of model files that yielded no object: a reference to one of these is not known to be wrong."""
    locate: Callable[[Where], Position]
    """Where a place in `cluster/` is written: of the value, or of what surrounds it where it was left out."""
    texts: Mapping[str, str]
    """Text by file, as findings name files, with what may be secret blanked when it is asked for; none for locks."""


class Texts(Mapping[str, str]):
    """The texts of documents, each masked once it is asked for: of most files nobody asks, of some every finding."""

    def __init__(self, documents: Mapping[str, Document]) -> None:
        self._documents = documents
        self._masked: dict[str, str] = {}

    def __getitem__(self, file: str) -> str:  # type: ignore[explicit-override]  # typing.override comes with Python 3.12
        if file not in self._masked:
            self._masked[file] = self._documents[file].shown_text()
        return self._masked[file]

    def __contains__(self, file: object) -> bool:  # type: ignore[explicit-override]  # typing.override comes with Python 3.12
        return file in self._documents

    def __iter__(self) -> Iterator[str]:  # type: ignore[explicit-override]  # typing.override comes with Python 3.12
        return iter(self._documents)

    def __len__(self) -> int:  # type: ignore[explicit-override]  # typing.override comes with Python 3.12
        return len(self._documents)
